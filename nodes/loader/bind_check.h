/* bind_check.h - are all of a network's tensors there, in the shapes it wants? */
#ifndef KILN_NODES_BIND_CHECK_H
#define KILN_NODES_BIND_CHECK_H

#include "kiln/plugin.h"

/* As check() of kiln/loading.h. [run] */
kiln_status bind_check(const kiln_call *c, const char *kind, const kiln_value *v);

#endif
