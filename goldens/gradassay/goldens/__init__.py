"""Keeps and compares captured gradients; knows numpy, and neither torch nor HTTP."""
