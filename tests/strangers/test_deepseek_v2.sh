# test_deepseek_v2.sh - a stranger brings a DeepSeek-V2 (language/): latent attention over a cache that is one of kiln's states, and a mixture of experts.
# Built against an installed kiln and nothing else, and held against transformers: f32 1e-5 of the largest logit, bf16 2e-2, greedy text token by token.
family=deepseek_v2
. "$KILN_ROOT/tests/strangers/language/language.sh"

# what one model has read is nothing to another
{
    begin; read_ x "$prompt"
    echo '  other: {class_type: ExampleLanguageModelLoader, inputs: {file: mamba2.safetensors}}'
    echo '  y: {class_type: ExampleLanguageGenerate, inputs: {model: [other, 0], state: [x, 0], tokens: 1}}'
    echo '  text: {class_type: TestText, inputs: {text: [y, 0], name: y}}'
} >"$work/other.yaml"
refused another_models_state "$work/other.yaml" 1 "node 'y' \(ExampleLanguageGenerate\): the state was read by another model"
exit $status
