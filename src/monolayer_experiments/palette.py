"""The colours of figures. Each has a contrast of 3 or more against the page in light and in dark."""

BLUE, ORANGE, GREEN, RED, VIOLET, GREY, GOLD, PINK = PALETTE = (
    "#3b7dd8",
    "#d9732b",
    "#2a9d7c",
    "#d1495b",
    "#9567cf",
    "#7d8590",
    "#b08a1e",
    "#c2569c",
)
