"""The construction in the clothes of stock architectures: folders that Hugging Face transformers load as they are."""
