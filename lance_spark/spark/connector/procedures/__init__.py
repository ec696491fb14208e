"""CALL system.<procedure>: arguments, results and implementation of each procedure."""
