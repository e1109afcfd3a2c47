"""A page to look at: one HTML file that runs a model in the browser."""

from monolayer.page.build import page, write

__all__ = ["page", "write"]
