/* picture_text.h - a text that a picture carries, such as its workflow: a text chunk of a PNG, or an ASCII entry
 * "KEY:TEXT" in the EXIF block of a WebP or JPEG (so ComfyUI writes them). What the file is, is seen from its first
 * bytes. */
#ifndef KILN_WORKFLOW_PICTURE_TEXT_H
#define KILN_WORKFLOW_PICTURE_TEXT_H

#include "base/status.h"

#include <stddef.h>

/* 1: a regular file that begins as a PNG, WebP or JPEG does. */
int picture_text_is_picture(const char *path);
/* 1: so does this. */
int picture_text_begins(const char *data, size_t n);

/* *text: NUL-terminated UTF-8, free with mem_free; NULL when there is none of that key. KILN_ERR_INVALID with a message
 * when the file is no such picture or is damaged. */
kiln_status picture_text_find(const char *path, const char *key, char **text, error *e);
/* The same, but KILN_ERR_INVALID with a message when there is none. */
kiln_status picture_text_read(const char *path, const char *key, char **text, error *e);

#endif
