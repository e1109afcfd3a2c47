"""Decide what an encoder with questions answers at every embedding: docs/proofs-questions.md has the lemmas.

files.py    reads the folder, and refuses what `recognize` does not write
caps.py     where each neuron is silent, and where it is awake (Q1 to Q3)
words.py    what the head says about what neurons write (Q4 to Q6)
check.py    the verdict on questions and answers
"""
