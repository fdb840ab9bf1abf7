/* chat_template.h - how messages of a conversation are written as one text, by the names of the known shapes. The
 * Jinja programs that model files carry are not run: their shape is recognised (chat_template_of in sources.h). */
#ifndef KILN_TOKENIZER_CHAT_TEMPLATE_H
#define KILN_TOKENIZER_CHAT_TEMPLATE_H

#include "kiln/tokenizer.h"

/* As kiln_tokenizer_api.render; bos: the begin token's text, for the shapes that write it. */
size_t chat_render(const char *name, const char *bos, const kiln_chat_message *, size_t n, uint32_t open_turn,
                   char *out, size_t capacity, char *why);

#endif
