/* png_text.h - a text chunk of a PNG file (tEXt, zTXt or iTXt), such as the workflow a picture carries. */
#ifndef KILN_WORKFLOW_PNG_TEXT_H
#define KILN_WORKFLOW_PNG_TEXT_H

#include "base/status.h"

/* The text of chunk `key` in *text: NUL-terminated UTF-8, free with mem_free. KILN_ERR_INVALID with a message when the
 * file is not a PNG, is damaged, or has no such chunk. */
kiln_status png_text_read(const char *path, const char *key, char **text, error *e);
/* The same, but KILN_OK with *text NULL when there is no such chunk. */
kiln_status png_text_find(const char *path, const char *key, char **text, error *e);

#endif
