/* python_text.h - values as Python writes them. */
#ifndef KILN_NODES_PYTHON_TEXT_H
#define KILN_NODES_PYTHON_TEXT_H

/* repr: the fewest digits that give the number again; an exponent below 1e-4 and from 1e16 on. */
void python_float(double f, char out[40]);

#endif
