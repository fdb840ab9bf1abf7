/* fuzz_editor.c - any bytes as a file of ComfyUI's editor: what fuzz_workflow.c checks of every workflow, and that what
 * `kiln convert` makes of a sound one, in both forms and of each the other, is the same workflow.
 */
/* longest input: 8192 */
#define LLVMFuzzerTestOneInput any_workflow
#include "fuzz_workflow.c"
#undef LLVMFuzzerTestOneInput

#include "workflow/convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_converted; /* for the test */

static const kiln_node *row_of(const void *self, const char *type)
{
    const catalog_view *c = self;
    digest identity;
    return c->find(c->self, type, &identity);
}

/* As `kiln convert` has it: the file has been read and not checked, so nothing has expanded. */
static char *converted(const char *text, size_t size, int to_api)
{
    error e = {0};
    document d = {0};
    catalog_view catalog = fake_catalog();
    catalog.file = any_file;
    const document_source from = {.name = "f", .data = text, .size = size, .catalog = &catalog};
    const convert_rows rows = {.self = &catalog, .find = row_of};
    must(document_read(&d, &from, &e) == KILN_OK && d.n_fault == 0, "what was read is read again");
    char *made = to_api ? convert_to_api(&d, &rows, &e) : convert_to_yaml(&d, &rows, &e);
    document_free(&d);
    return made;
}

/* `to_api`: which form is made of the text that r was read from; then the other one of that, `more` times. */
static void check_converted(const reading *r, const char *text, size_t size, int to_api, int more)
{
    reading other = {0};
    char *made = converted(text, size, to_api);
    must(made != NULL, "a sound file can be converted");
    must(read_all(&other, made, strlen(made)) && other.sound, "what it is converted to is sound");
    for (size_t i = 0; i < r->w.n && i < 100; i++) {
        if (!r->w.node[i].needed) continue;
        const graph_node *same = node_named(&other.w, r->w.node[i].doc->name);
        must(same && digest_equal(same->key, r->w.node[i].key), "and is the same workflow");
    }
    if (more) check_converted(&other, made, strlen(made), !to_api, more - 1);
    document_free(&other.doc);
    mem_free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reading r = {0};
    if (!read_all(&r, (const char *)data, size)) return 0;
    int saved = r.doc.from_editor;
    if (saved && r.sound && r.w.n < 1000) {
        n_converted++;
        check_converted(&r, (const char *)data, size, 0, 1);
        check_converted(&r, (const char *)data, size, 1, 1);
        check_description(&r.w);
    }
    document_free(&r.doc);
    return 0;
}
