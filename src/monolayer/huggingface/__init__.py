"""Read and describe the folders of Hugging Face models: names of tensors, files, and how text is split."""
