"""The report: one HTML file about a trained model, by write_report."""

from multimargin.report.writing import write_report

__all__ = ["write_report"]
