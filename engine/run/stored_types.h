/* stored_types.h - what plugins registered through "kiln.store/1", as the cache layer takes it. */
#ifndef KILN_RUN_STORED_TYPES_H
#define KILN_RUN_STORED_TYPES_H

#include "cache/codec.h"

const codec_types *stored_types(void); /* valid until the process ends; any thread once plugins are open */

#endif
