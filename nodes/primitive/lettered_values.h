/* lettered_values.h - the optional inputs values.a to values.z, of any type, of a node whose text names them. */
#ifndef KILN_NODES_LETTERED_VALUES_H
#define KILN_NODES_LETTERED_VALUES_H

#include "kiln/plugin.h"

enum { LETTERED_VALUES_N = 26 };

#define LETTERED_VALUE(letter_, DOC)                                                                                   \
    {                                                                                                                  \
        .name = "values." letter_, .type = "*", .flags = KILN_PORT_OPTIONAL, .doc = DOC(letter_)                       \
    }
/* Initializers of LETTERED_VALUES_N ports; DOC("a") is what the first says of itself. */
#define LETTERED_VALUES(DOC)                                                                                           \
    LETTERED_VALUE("a", DOC), LETTERED_VALUE("b", DOC), LETTERED_VALUE("c", DOC), LETTERED_VALUE("d", DOC),            \
        LETTERED_VALUE("e", DOC), LETTERED_VALUE("f", DOC), LETTERED_VALUE("g", DOC), LETTERED_VALUE("h", DOC),        \
        LETTERED_VALUE("i", DOC), LETTERED_VALUE("j", DOC), LETTERED_VALUE("k", DOC), LETTERED_VALUE("l", DOC),        \
        LETTERED_VALUE("m", DOC), LETTERED_VALUE("n", DOC), LETTERED_VALUE("o", DOC), LETTERED_VALUE("p", DOC),        \
        LETTERED_VALUE("q", DOC), LETTERED_VALUE("r", DOC), LETTERED_VALUE("s", DOC), LETTERED_VALUE("t", DOC),        \
        LETTERED_VALUE("u", DOC), LETTERED_VALUE("v", DOC), LETTERED_VALUE("w", DOC), LETTERED_VALUE("x", DOC),        \
        LETTERED_VALUE("y", DOC), LETTERED_VALUE("z", DOC)

#endif
