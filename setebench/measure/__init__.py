"""How questions are put: calibration, lines laid and placed in a level, and what several scenarios time with them."""
