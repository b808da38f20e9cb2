"""Forecasts of starts and what they learn from.

feature                               what it adds to the controller process
forecaster                            writes expected starts
guesses, run_time_keeper              how long jobs like one ran
stored_calibrations                   how far forecasts were off
"""
