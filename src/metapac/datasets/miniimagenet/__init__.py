"""mini-ImageNet: classes of ImageNet at 84 x 84 pixels."""
