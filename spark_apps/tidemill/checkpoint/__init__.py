"""The files below `state/<pipeline>/`: generations, epochs, holds and receipts; the gate and the operations.

No JVM.
"""
