"""The construction inside stock architectures: folders that Hugging Face transformers load without changes."""
