"""CIFAR10-C: sequences of corruptions of CIFAR-10."""
