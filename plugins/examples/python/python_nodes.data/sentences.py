"""Texts and numbers are Python's own."""
from kiln_node import Int, Text, node


@node(title="Python sentence", category="examples", doc="A sentence of words, and how many it has.", outputs={"STRING": "STRING", "count": "INT"},
      words=Text("a red circle", doc="Words with blanks between them."), times=Int(1, 1, 16, doc="How often they are said."))
def PySentence(words, times):
    said = words.split() * times
    return " ".join(said).capitalize() + ".", len(said)
