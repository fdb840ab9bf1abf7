/* base64.h - bytes in text (RFC 4648, section 4). */
#ifndef KILN_BASE_BASE64_H
#define KILN_BASE_BASE64_H

#include "base/str.h"

void str_base64(str *s, const void *from, size_t n);

/* Up to the first character that is none of base64's; `to` has room for 3 bytes of 4 characters. Returns the bytes. */
size_t base64_bytes(const char *from, unsigned char *to);

#endif
