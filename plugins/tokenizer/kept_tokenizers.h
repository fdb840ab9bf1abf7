/* kept_tokenizers.h - the tokenizers that were opened last stay open: a run opens its model when it is estimated and
 * once more when it runs, and two encoders of a model often come with the same files. CLIP's vocabulary takes 45 ms.
 */
#ifndef KILN_TOKENIZER_KEPT_H
#define KILN_TOKENIZER_KEPT_H

#include "tokenizer.h"

/* How many, and of how many bytes of memory all together; the oldest go first. */
enum { KEPT_TOKENIZERS = 4, KEPT_BYTES = 64 << 20 };

/* key: 32 hex digits of all that was given to open(). Any thread. */
kiln_tokenizer *kept_tokenizer(const char *key); /* a reference of the caller's; NULL: there is none of this key */
void keep_tokenizer(const char *key, kiln_tokenizer *); /* takes a reference of its own, or none if it is too large */

kiln_tokenizer *tokenizer_ref(kiln_tokenizer *); /* NULL: NULL */
void tokenizer_unref(kiln_tokenizer *);          /* the last one frees it */

#endif
