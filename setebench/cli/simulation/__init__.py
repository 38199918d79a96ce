"""Commands about simulated machines: what they are, and how often inference is right on them."""
