"""Folders of stock architectures as Hugging Face has them: names of tensors, files, texts."""
