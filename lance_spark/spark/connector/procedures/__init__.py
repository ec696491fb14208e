"""CALL system.<procedure>: arguments, results and the work of each procedure."""
