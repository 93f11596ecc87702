"""The store through power cuts, torn tails, flipped bits and failing disks."""
