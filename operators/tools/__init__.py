"""Commands for people who look at jobs: `akdl doctor`, `akdl report`, `akdl top` and `akdl
stacks`.
"""
