/* hello.c - the smallest node there is. */
#include "kiln/kit.h"

static const kiln_port out[] = {{.name = "STRING", .type = "STRING", .doc = "A greeting."}};
static kiln_status run(const kiln_call *c)
{
    c->out[0] = kit_values(c)->new_string(c->ctx, "hello", 5);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}
static const kiln_node hello = {KIT_NODE("ExampleHello", "Hello", "examples", "Says hello."), KILN_ARRAY(out, out),
                                .run = run};
KILN_PLUGIN("org.example.hello", "1.0.0", "MIT", &hello);
