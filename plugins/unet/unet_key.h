/* unet_key.h - a configuration as text: the part of a program's key that says what is recorded, apart from weights and
 * shapes. */
#ifndef KILN_UNET_KEY_H
#define KILN_UNET_KEY_H

#include "unet_model.h"

/* "NAME/4.4.768.32...". */
void unet_key(const unet_config *c, const char *name, char *out, size_t capacity);

#endif
