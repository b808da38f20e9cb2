"""A small evaluator of CEL, for webhooks' matchConditions and the expressions of JobKinds.

cel               parses and evaluates
cel_operations    operators, functions, methods and macros
cel_authorizer    `authorizer` of matchConditions
cel_budget        bounds the work of an evaluation
"""
