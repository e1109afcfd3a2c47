"""The network as `nn.Module`s, and its files."""
