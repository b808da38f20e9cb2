"""Forecasts of starts and what they learn from.

forecaster                            writes expected starts
guesses, run_time_keeper              how long jobs like one ran
stored_calibrations                   how far forecasts were off
"""
