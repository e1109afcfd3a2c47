"""Stock folders as a stranger reads them: Hugging Face files and data to a verdict, without PyTorch."""
