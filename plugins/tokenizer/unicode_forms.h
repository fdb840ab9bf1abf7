/* unicode_forms.h - Unicode's normal forms, with spans. Tables: utf8proc, as far as unicode_tables.c says that the
 * field's tokenizers know them. */
#ifndef KILN_TOKENIZER_UNICODE_FORMS_H
#define KILN_TOKENIZER_UNICODE_FORMS_H

#include "aligned_text.h"

enum { FORM_COMPOSE = 1, FORM_COMPATIBLE = 2 }; /* NFD 0, NFC 1, NFKD 2, NFKC 3 */

int text_to_form(token_pool *, int form, aligned_text *text); /* 0: no memory */

#endif
