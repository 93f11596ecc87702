"""The store under power cuts, torn tails, bit flips and disk failures."""
