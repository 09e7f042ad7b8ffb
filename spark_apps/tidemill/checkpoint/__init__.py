"""The files below `state/<pipeline>/`: generations, epochs, holds and receipts; the gate and the verbs.

No JVM.
"""
