# kiln: make (build), make run, make test, make bench, make install PREFIX=...
#   DEBUG=1            -O0 -g with assertions       SAN=address|undefined|thread, with assertions; SAN=undefined,address: both at once
#   COVERAGE=1         counts branches (scripts/coverage)
#   CC=clang           another compiler             V=1  show commands
#   KILN_BUILD=FOLDER  build there (no blanks in its name) and not in build/; the sources may be read-only
# Every .c file under engine/ is part of libkiln, engine/cli/ is the command, nodes/NAME and plugins/NAME
# make one .so, each tests/*/test_*.c is one program.

SHELL := /bin/bash
.DEFAULT_GOAL := all
VERSION := 0.1.0
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= gcc
NVCC := $(shell command -v nvcc 2>/dev/null)
ARCH := $(shell uname -m)
ifeq ($(V),)
Q := @
endif

config := release
ifeq ($(DEBUG),1)
config := debug
endif
ifneq ($(SAN),)
comma := ,
config := $(config)-$(subst $(comma),-,$(SAN))
endif
ifeq ($(COVERAGE),1)
config := coverage
endif
ifneq ($(origin CC),default)
ifneq ($(notdir $(CC)),gcc)
config := $(config)-$(notdir $(CC))
endif
endif
B := $(or $(KILN_BUILD),build/$(config))

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wvla -Werror
OPT := -O2
ifeq ($(DEBUG),1)
OPT := -O0
endif
ifeq ($(DEBUG)$(SAN),)
OPT += -DNDEBUG
endif
SANFLAGS := $(if $(SAN),-Wno-maybe-uninitialized -Wno-format-truncation -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# Branches as they are written: none inlined twice, none made a conditional move. Counts are kept where a process ends by _exit.
ifeq ($(COVERAGE),1)
OPT := -O1 -fno-inline -fno-ssa-phiopt -DNDEBUG -Wno-maybe-uninitialized
SANFLAGS := --coverage -fprofile-update=prefer-atomic
CFLAGS_COVERAGE := -include tests/coverage/exit_counted.h
endif
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE -g $(OPT) -fPIC -fvisibility=hidden -ffp-contract=off $(WARN) $(SANFLAGS) $(CFLAGS_COVERAGE) $(CFLAGS)
ENGINE_INC := -Iinclude -Iengine
DEFS := -DKILN_VERSION='"$(VERSION)"'
LDFLAGS_ALL := $(SANFLAGS) -Wl,-z,relro,-z,now $(LDFLAGS)
ENGINE_LIBS := -lyaml -ljansson -lpng -lturbojpeg -lwebp -lz -lsqlite3 -lxxhash -ldnnl -lgomp -lstdc++ -ldl -lpthread -lm

# ---- engine --------------------------------------------------------------------------------------
engine_src := $(filter-out engine/cli/main.c engine/backend/cuda/%,$(wildcard engine/*/*.c engine/*/*/*.c))
ifneq ($(ARCH),x86_64)
engine_src := $(filter-out %_avx2.c %_avx512.c %_avx512bf16.c %_avx512vnni.c %_avxvnni.c %_amx.c,$(engine_src))
endif
engine_edge := $(wildcard engine/backend/cpu/*.cpp)
engine_obj := $(engine_src:%.c=$(B)/%.o) $(engine_edge:%.cpp=$(B)/%.o)

# Files named for an instruction set are compiled for it and only called when the processor has it.
$(B)/%_avx2.o: isa := -mavx2 -mfma -mf16c
$(B)/%_avx512.o: isa := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512
$(B)/%_avx512bf16.o: isa := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mavx2 -mfma -mf16c -mprefer-vector-width=512
$(B)/%_avx512vnni.o: isa := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mprefer-vector-width=512
$(B)/%_avxvnni.o: isa := -mavxvnni -mavx2 -mfma -mf16c
$(B)/%_amx.o: isa := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mavx2 -mfma -mf16c -mprefer-vector-width=512
$(B)/%_units_amx.o: isa += -mavx512vbmi # which AMX does not promise
# -g1: where variables of unrolled loops lie takes the compiler as long as the code, which is the same; DEBUG=1 has them.
optimised_kernel := $(if $(filter 1,$(DEBUG)),,-g1 -O3 -fno-math-errno -fno-trapping-math)
ifeq ($(COVERAGE),1)
optimised_kernel := -fprofile-update=single -fno-math-errno -fno-trapping-math -Dalways_inline=unused
endif
ifneq ($(findstring undefined,$(SAN)),)
optimised_kernel := -O1 -Dalways_inline=unused # each lane of an unrolled kernel is checked: minutes of optimizing
endif
$(B)/engine/backend/cpu/%.o: kernel_opt := $(optimised_kernel)
$(B)/engine/backend/reference/%.o: kernel_opt := $(optimised_kernel)
$(B)/engine/tensor/block_%.o: kernel_opt := $(optimised_kernel)

$(B)/engine/%.o: engine/%.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC  $<")
	$(Q)$(CC) $(CFLAGS_ALL) $(kernel_opt) $(isa) $(ENGINE_INC) $(DEFS) -MMD -MP -c $< -o $@

# Where exceptions of a C++ library end; what may be unwound through is compiled for it.
$(B)/engine/%.o: engine/%.cpp
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX $<")
	$(Q)$(CXX) -std=c++17 -g $(OPT) -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow -Werror $(SANFLAGS) $(CXXFLAGS) $(ENGINE_INC) -MMD -MP -c $< -o $@
$(B)/engine/backend/cpu/onednn.o: CFLAGS_ALL += -fexceptions

# What computes results, as a digest of its sources: it is in the keys of results (engine/run/machine.c), so that no other code's are taken for its own.
arithmetic_src := $(sort $(wildcard $(addprefix engine/,$(addsuffix /*.[ch]*,backend backend/cpu backend/cuda backend/reference graph tensor weights))) $(wildcard include/kiln/*.h))
$(B)/arithmetic: FORCE
	@mkdir -p $(@D)
	@new=$@.$$$$.new; cat $(arithmetic_src) | sha256sum | cut -c1-16 >$$new && if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi
$(B)/engine/run/machine.o: $(B)/arithmetic
$(B)/engine/run/machine.o: DEFS += -DKILN_ARITHMETIC='"'$$(cat $(B)/arithmetic)'"'

$(B)/libkiln.a: $(engine_obj)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/kiln: $(B)/engine/cli/main.o $(B)/libkiln.a
	$(if $(Q),@echo "  LD  $@")
	$(Q)$(CC) $(LDFLAGS_ALL) $(B)/engine/cli/main.o -Wl,--whole-archive $(B)/libkiln.a -Wl,--no-whole-archive $(ENGINE_LIBS) -o $@

# The library of kiln/engine.h: the engine without its command; it exports what that header declares and nothing else.
# Its soname has the contract's major: a program that was linked with another does not start with this one.
abi_major := $(shell sed -n 's/^\#define KILN_ABI_MAJOR //p' include/kiln/plugin.h)
$(B)/libkiln.so.$(abi_major): $(filter-out $(B)/engine/cli/%,$(engine_obj))
	$(if $(Q),@echo "  SO  $@")
	$(Q)$(CC) -shared $(LDFLAGS_ALL) $(if $(SAN),,-Wl,--no-undefined) -Wl,-soname,$(@F) $^ $(ENGINE_LIBS) -o $@
$(B)/libkiln.so: $(B)/libkiln.so.$(abi_major)
	$(Q)ln -sf $(<F) $@

# ---- plugins: nodes/NAME (what a user sees) and plugins/NAME (models and algorithms) make kiln-NAME.so -----
# One of the two has plugin.mk with `libs_NAME := -l...`. A plugin sees include/ and its own two folders.
# What lies in plugins/NAME/data is shipped beside the plugin, as kiln-NAME.data (docs/writing-a-plugin.md).
plugin_mk := $(wildcard nodes/*/plugin.mk plugins/*/plugin.mk)
plugin_names := $(sort $(notdir $(patsubst %/plugin.mk,%,$(plugin_mk))))
-include $(plugin_mk)
plugin_so := $(plugin_names:%=$(B)/plugins/kiln-%.so)
plugin_inc := $(wildcard $(plugin_names:%=plugins/%) $(plugin_names:%=nodes/%))

$(B)/sdk/%.o: %.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC  $<")
	$(Q)$(CC) $(CFLAGS_ALL) $(kernel_opt) -Iinclude $(addprefix -I,$(wildcard plugins/$(plugin_of) nodes/$(plugin_of))) -DKILN_PLUGIN_VERSION='"$(VERSION)"' -MMD -MP -c $< -o $@
plugin_of = $(word 2,$(subst /, ,$<))

define plugin_rule
plugin_obj_$(1) := $$(patsubst %.c,$(B)/sdk/%.o,$$(wildcard plugins/$(1)/*.c nodes/$(1)/*.c))
plugin_data_$(1) := $$(shell find plugins/$(1)/data -type f 2>/dev/null)
$(B)/plugins/kiln-$(1).so: $$(plugin_obj_$(1)) $$(plugin_data_$(1))
	@mkdir -p $$(@D)
	$$(if $$(Q),@echo "  SO  $$@")
	$$(Q)$$(CC) -shared $$(LDFLAGS_ALL) -Wl,--no-undefined $$(plugin_obj_$(1)) $$(libs_$(1)) -lm -Wl,--push-state,--no-as-needed -lc -Wl,--pop-state -o $$@
	$$(Q)chmod go-w $$(@D) $$@
	$$(if $$(plugin_data_$(1)),$$(Q)rm -rf $$(@:.so=.data) && cp -R plugins/$(1)/data $$(@:.so=.data) && chmod -R u+w $$(@:.so=.data) && chmod -R go-w $$(@:.so=.data))
endef
ifneq ($(filter %address thread,$(SAN)),)
plugin_undefined_ok := 1
endif
$(foreach p,$(plugin_names),$(eval $(call plugin_rule,$(p))))

# ---- CUDA: engine/backend/cuda is a library of its own, opened at run time; needs nvcc, nothing else of CUDA at run time but the driver -------
# make CUDA_ARCH="80 90": the chips to build for; the last one's PTX serves newer ones. FILE.cu.arch says for which an object was compiled. By itself
# it is built for the chips that are here, so not at all where there is no GPU; `make cuda` and `make install` build it for all.
CUDA_ALL := 75 80 86 89 90
CUDA_ARCH ?= $(if $(NVCC),$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -un))
CUDA_ARCH := $(CUDA_ARCH)
cuda_home := $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
cuda_src := $(wildcard engine/backend/cuda/*.c)
cuda_kernel := $(wildcard engine/backend/cuda/*.cu)
cuda_obj := $(cuda_src:%.c=$(B)/%.o) $(cuda_kernel:%.cu=$(B)/%.cu.o)
cuda_so := $(if $(and $(NVCC),$(CUDA_ARCH),$(filter-out %-address %-undefined %-thread,$(config))),$(B)/backends/kiln-cuda.so)
cuda_codes_plain = $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))
cuda_codes = $(cuda_codes_plain)
# gemm_wgmma.cu is for sm_90a alone, whose instructions no other chip has and older nvcc do not know.
cuda_sm90a := $(if $(filter 90,$(CUDA_ARCH)),$(shell echo | $(NVCC) -arch=sm_90a -x cu --dryrun - >/dev/null 2>&1 && echo 1))
cuda_codes_sm90a = $(foreach a,$(filter-out 90,$(CUDA_ARCH)),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_90a,code=sm_90a -DKILN_CUDA_SM90A
$(B)/engine/backend/cuda/gemm_wgmma.cu.o: cuda_codes = $(if $(cuda_sm90a),$(cuda_codes_sm90a),$(cuda_codes_plain))
NVCC_FLAGS := -std=c++17 -O3 --Werror all-warnings -Xcompiler -Wall,-Wextra,-fPIC,-fvisibility=hidden -Iinclude -Iengine
$(B)/engine/backend/cuda/%.o: engine/backend/cuda/%.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC  $<")
	$(Q)$(CC) $(CFLAGS_ALL) $(ENGINE_INC) -isystem $(cuda_home)/include $(DEFS) -MMD -MP -c $< -o $@
# Other chips than last time: every kernel is compiled anew.
$(B)/cuda.arch: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_ARCH)' | cmp -s - $@ || echo '$(CUDA_ARCH)' >$@
.PHONY: FORCE
$(B)/engine/backend/cuda/%.cu.o: engine/backend/cuda/%.cu $(B)/cuda.arch
	@mkdir -p $(@D)
	$(if $(Q),@echo "  NVCC $<")
	$(Q)$(NVCC) $(NVCC_FLAGS) $(cuda_codes) -MMD -MP -c $< -o $@
	$(Q)echo $(CUDA_ARCH) >$(@:.o=.arch)
$(B)/backends/kiln-cuda.so: $(cuda_obj) $(B)/libkiln.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  SO  $@")
	$(Q)$(CXX) -shared $(LDFLAGS_ALL) -Wl,--no-undefined -Wl,--exclude-libs,ALL $(cuda_obj) $(B)/libkiln.a -L$(cuda_home)/lib64 -lcudart_static -lxxhash -lrt -ldl -lpthread -lm -o $@
	$(Q)chmod go-w $(@D) $@

# The same files over tests/cuda_emu: kernels as C++ of the host, a runtime that is none. Optimised in every build, or its tests take minutes,
# and for the processor that builds them: without its fma each fmaf is a call of libm, which gives the same number.
emu_isa := $(if $(filter x86_64,$(ARCH)),$(shell grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo && echo -mavx2 -mfma))
emu_opt := $(if $(filter -O0,$(OPT)),-O1,$(if $(filter 1,$(COVERAGE)),-O2 -DNDEBUG,$(OPT)))
emu_flags := -DKILN_CUDA_EMU -Itests/cuda_emu -Itests/cuda_emu/fake $(ENGINE_INC) -Itests
emu_obj := $(patsubst %.c,$(B)/emu/%.o,$(cuda_src)) $(cuda_kernel:%.cu=$(B)/emu/%.cu.o) $(B)/emu/tests/cuda_emu/cu_shim.o
CXXFLAGS_EMU = -std=c++17 -g $(emu_opt) $(emu_isa) -fPIC -Wno-psabi -ffp-contract=off -Wall -Wextra -Wshadow -Werror -Wno-unknown-pragmas $(filter-out --coverage -fprofile-update%,$(SANFLAGS)) $(CXXFLAGS)
$(B)/emu/%.o: %.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC  $< (emulation)")
	$(Q)$(CC) $(CFLAGS_ALL) $(emu_flags) $(DEFS) -MMD -MP -c $< -o $@
$(B)/emu/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX $< (emulation)")
	$(Q)$(CXX) $(CXXFLAGS_EMU) $(emu_flags) -x c++ -MMD -MP -c $< -o $@
$(B)/emu/%.o: %.cpp
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX $<")
	$(Q)$(CXX) $(CXXFLAGS_EMU) $(emu_flags) -MMD -MP -c $< -o $@

# NVIDIA's libraries, as far as the backend calls them: opened by name, as the real ones are.
emu_vendor := $(B)/emu/fake-cublaslt.so $(B)/emu/fake-cudnn.so
$(B)/emu/fake-%.so: $(B)/emu/tests/cuda_emu/fake_%.o $(B)/emu/tests/cuda_emu/fake_vendor.o $(B)/libkiln.a
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,--exclude-libs,ALL $^ -lpthread -lm -o $@
$(B)/emu/kiln-cuda-emu.so: $(emu_obj) $(B)/emu/tests/cuda_emu/emu_library.o $(B)/tests/cuda_emu/fake_cuda.o $(B)/tests/memory/fake_device.o $(B)/libkiln.a | $(emu_vendor)
	$(Q)$(CXX) -shared $(LDFLAGS_ALL) -Wl,--exclude-libs,ALL $^ $(ENGINE_LIBS) -o $@
	$(Q)chmod go-w $(@D) $@

# ---- tests -----------------------------------------------------------------------------------------
test_src := $(wildcard tests/*/test_*.c)
test_bin := $(test_src:%.c=$(B)/%)
# Tests compile at -O1, in two thirds of the time, as their own code runs for an instant; but for folders that compute much of what they compare with.
# At -O1 gcc takes some variables for uninitialised that are not.
test_busy := backend/% bench/% cuda_emu/% judge/%
CFLAGS_TEST = $(patsubst -O2,-O1 -Wno-maybe-uninitialized,$(CFLAGS_ALL))
ifeq ($(COVERAGE),1)
$(B)/tests/%.o: CFLAGS_ALL := $(filter-out --coverage -fprofile-update%,$(CFLAGS_ALL))
endif
$(B)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC  $<")
	$(Q)$(CC) $(if $(filter $(test_busy),$*),$(CFLAGS_ALL),$(CFLAGS_TEST)) -Wno-override-init $(ENGINE_INC) -Itests $(addprefix -I,$(plugin_inc)) $(DEFS) -MMD -MP -c $< -o $@
# Three hundred programs are linked, each with the whole engine: by lld or gold in half the time.
ifeq ($(SAN)$(COVERAGE),)
test_linker := $(addprefix -fuse-ld=,$(firstword $(foreach l,lld gold,$(if $(shell command -v ld.$l),$l))))
endif
# A test in tests/NAME/ where NAME is a plugin is linked with that plugin's objects as well.
.SECONDEXPANSION:
test_plugin = $(filter $(firstword $(subst /, ,$(1))),$(plugin_names))
# Other .c files beside a test are linked into the tests of their folder.
test_help := $(filter-out $(test_src) tests/judge/judge.c tests/cuda_emu/emu_library.c tests/cuda_emu/fake_vendor.c tests/cuda_emu/fake_cublaslt.c tests/cuda_emu/fake_cudnn.c $(wildcard tests/fuzz/*.c tests/bench/*.c tests/torture/*.c),$(wildcard tests/*/*.c))
test_help_of = $(patsubst %.c,$(B)/%.o,$(filter tests/$(firstword $(subst /, ,$(1)))/%,$(test_help)))
$(B)/tests/%: $(B)/tests/%.o $(B)/tests/harness.o $(B)/libkiln.a $$(plugin_obj_$$(call test_plugin,$$*)) $$(call test_help_of,$$*)
	$(Q)$(CC) $(test_linker) $(LDFLAGS_ALL) $(filter %.o,$^) $(B)/libkiln.a $(ENGINE_LIBS) $(libs_$(call test_plugin,$*)) $(test_libs_$(firstword $(subst /, ,$*))) -o $@
.SECONDARY:
# Fuzzers of whole plugins.
test_libs_fuzz = $(libs_tokenizer) $(libs_image)
$(B)/tests/fuzz/test_fuzz_gguf_tokenizer $(B)/tests/fuzz/test_fuzz_tokenizer_json: $(plugin_obj_tokenizer)
$(B)/tests/fuzz/test_fuzz_picture: $(filter $(B)/sdk/plugins/%,$(plugin_obj_image))
$(B)/tests/fuzz/test_fuzz_controlnet: $(filter $(B)/sdk/plugins/%,$(plugin_obj_unet))
$(B)/tests/fuzz/test_fuzz_text_diffusion: $(filter $(B)/sdk/plugins/%,$(plugin_obj_text_diffusion))
# Tests of the CUDA backend: with it, over the emulation.
$(patsubst %.c,$(B)/%,$(wildcard tests/cuda_emu/test_*.c)): $(emu_obj) $(B)/tests/memory/fake_device.o $(B)/tests/backend/ops_run.o | $(emu_vendor)
$(B)/tests/cuda_emu/test_cuda_shim: $(B)/emu/tests/cuda_emu/shim_kernels.cu.o
$(B)/tests/cuda_emu/test_cuda_wgmma: $(B)/emu/tests/cuda_emu/warpgroup_kernels.cu.o
$(B)/tests/cuda_emu/%.o: CFLAGS_ALL += -DKILN_CUDA_EMU -DFAKE_LIBRARIES='"$(abspath $(B)/emu)"' -Itests/cuda_emu -Itests/cuda_emu/fake
test_libs_cuda_emu := -lstdc++

# Kernels whose instructions few processors have are compiled once more for tests/instructions: AMX's over a model of it, AVX-VNNI's for
# the encoding that AVX-512 has of it. They take the place of the engine's there.
standin_src := $(filter %_amx.c %_avxvnni.c,$(engine_src))
standin_obj := $(standin_src:%.c=$(B)/standin/%.o)
$(B)/standin/%_amx.o: isa += -DKILN_AMX_MODEL -Itests/instructions
$(B)/standin/%_avxvnni.o: isa := -mavx512f -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c
$(B)/standin/%.o: kernel_opt := $(optimised_kernel)
$(B)/standin/%.o: %.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC  $< (for tests)")
	$(Q)$(CC) $(CFLAGS_ALL) $(kernel_opt) $(isa) $(ENGINE_INC) -MMD -MP -c $< -o $@
$(patsubst %.c,$(B)/%,$(wildcard tests/instructions/test_*.c)): $(standin_obj) $(addprefix $(B)/tests/backend/,int8_cases.o ops_level.o ops_run.o)
$(B)/tests/instructions/%.o: CFLAGS_ALL += -Itests/instructions
$(B)/tests/instructions/amx_model.o: CFLAGS_ALL += -O3 -fno-math-errno -fno-trapping-math $(if $(filter x86_64,$(ARCH)),-mavx2 -mfma)
$(B)/tests/backend/test_amx_instructions: $(B)/tests/instructions/amx_model.o
# Products at the level of AVX2 with AVX-VNNI, timed where AVX-512 has the instruction (docs/quantised.md).
$(B)/standin/block_products: $(B)/tests/bench/block_products.o $(standin_obj) $(B)/tests/instructions/amx_model.o $(B)/tests/instructions/instructions_model.o $(B)/libkiln.a
	$(Q)$(CC) $(LDFLAGS_ALL) $^ $(ENGINE_LIBS) -o $@

test_shared := $(wildcard tests/shared/*.c)

# The judge of pictures is a program of its own; its test is linked with its parts.
test_tools += $(B)/tests/judge/judge $(B)/emu/kiln-cuda-emu.so $(B)/standin/block_products
test_libs_judge := -lpng
test_libs_upscaler := -lpng
test_tools += $(B)/tests/bench/random_model $(B)/tests/bench/ceilings $(B)/tests/bench/library_floor $(B)/tests/bench/bandwidth $(B)/tests/bench/parity $(B)/tests/bench/op_times $(B)/tests/bench/cache $(B)/tests/bench/patched $(B)/tests/bench/block_products
# Faults: the library that makes them, and what they are made to. Not under sanitizers, which interpose the same functions.
ifeq ($(SAN),)
test_tools += $(B)/tests/torture/torture $(B)/tests/torture/shim.so $(B)/tests/torture/touch.so $(B)/tests/torture/weather.so
endif
$(B)/tests/torture/%.so: tests/torture/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -g -O1 -fPIC -shared -fno-builtin $(WARN) -Wno-conversion -Wno-pedantic $< -ldl -o $@
$(B)/tests/judge/judge: $(B)/tests/judge/judge.o $(B)/tests/judge/sight.o $(B)/tests/judge/wish.o
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -lpng -lm -o $@

# ---- what people type --------------------------------------------------------------------------------
.PHONY: all setup run test tests test-sanitizers bench bench-sdxl bench-peers parity-full parity-comfyui parity-tokenizers test-templates fuzz torture install uninstall deb compdb format format-check lint analyze clean help
all: $(B)/kiln $(B)/libkiln.so $(plugin_so) $(cuda_so) $(B)/workflows $(B)/templates $(B)/rust $(B)/pkgconfig/kiln.pc cuda-note
# So that kiln finds what it ships from wherever it is built, and plugins are built against it there too.
$(B)/workflows: shipped = workflows
$(B)/templates: shipped = plugins/templates
$(B)/rust: shipped = bindings/rust
$(B)/workflows $(B)/templates $(B)/rust: FORCE
	@mkdir -p $(@D); to=$$(realpath --relative-to=$(@D) $(shipped)); [ "$$(readlink $@)" = "$$to" ] || ln -sfn "$$to" $@
$(B)/pkgconfig/kiln.pc: scripts/kiln.pc.in Makefile
	@mkdir -p $(@D) && sed -e 's|@PREFIX@|$(CURDIR)|' -e 's|@VERSION@|$(VERSION)|' -e 's|^plugindir=.*|plugindir=$(abspath $(B))/plugins|' $< >$@
help:
	@sed -n '1,6p' Makefile; echo; echo "targets: all run test test-memory test-places test-promises test-samplers test-sanitizers test-templates coverage mutation bench bench-sdxl bench-peers parity-full parity-comfyui parity-tokenizers fuzz install uninstall deb compdb format format-check lint analyze clean"

# The first thing `make run` and `make test` do, so that a bare machine becomes a working one.
setup:
	$(Q)scripts/setup

cuda_no_gpu := "  CUDA: no GPU here, so its backend is not built; make cuda builds it for all chips"
cuda_no_nvcc := "  CUDA: no nvcc, so everything but CUDA is built"
.PHONY: cuda-note
cuda-note:
	@$(if $(cuda_so),:,$(if $(NVCC),echo $(cuda_no_gpu),echo $(cuda_no_nvcc)))
.PHONY: cuda
cuda:
	$(if $(NVCC),,$(error make cuda: nvcc is not on the PATH; install the CUDA toolkit))
	$(Q)$(MAKE) --no-print-directory -j$(or $(JOBS),$(shell nproc)) CUDA_ARCH="$(CUDA_ALL)" $(B)/backends/kiln-cuda.so

# As many compilers at once as there are processors, unless -j says otherwise.
parallel = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
run: setup
	$(Q)$(MAKE) --no-print-directory $(parallel) all
	$(Q)$(B)/kiln run workflows/txt2img.yaml --out out

tests: all $(test_bin) $(test_tools)
test: setup
	$(Q)$(MAKE) --no-print-directory $(parallel) tests
	$(Q)KILN_BUILD=$(B) scripts/run-tests $(FILTER)

# The whole suite once under each sanitizer (slow; continuous integration runs `make test`).
test-sanitizers: setup
	$(Q)for s in address undefined thread; do \
	    $(MAKE) --no-print-directory DEBUG=1 SAN=$$s tests && \
	    KILN_BUILD=build/debug-$$s KILN_TEST_LIMIT=1200 scripts/run-tests $(FILTER) || exit 1; done

# The offloader in full: 1,000 orders of the streams and every failing call, with plain kernels and with the CUDA backend's own; every op of
# the CUDA backend under several orders of threads; a whole workflow on the emulated device.
.PHONY: test-memory
test-memory: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_TEST_FULL=1 KILN_BUILD=$(B) KILN_TEST_LIMIT=1800 scripts/run-tests memory
	$(Q)KILN_TEST_FULL=1 KILN_BUILD=$(B) KILN_TEST_LIMIT=3600 scripts/run-tests cuda_emu

# Each sampler against the reference over every schedule, length and part of a run, and its law over 20,000 draws. Wants a Python
# with what scripts/golden/requirements.txt lists (PYTHON=...); COMFYUI=FOLDER, a checkout, adds what only ComfyUI has.
.PHONY: test-samplers
test-samplers: setup
	$(Q)$(MAKE) --no-print-directory $(addprefix $(B)/tests/sampler/,test_samplers test_sampler_order test_sampler_law)
	$(Q)KILN_BUILD=$(B) COMFYUI=$(COMFYUI) scripts/test-samplers

# The suite in an unusual place: blanks and an umlaut in the path, umask 002, no HOME, read-only sources (scripts/test-places).
.PHONY: test-places
test-places: setup
	$(Q)scripts/test-places $(FILTER)

# Breaks each promise of the README and asks that its test fails (tests/promises/README.md).
.PHONY: test-promises
test-promises: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) scripts/test-promises

bench: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) scripts/bench
	$(Q)KILN_BUILD=$(B) scripts/bench_ops
	$(Q)KILN_BUILD=$(B) scripts/bench_cache
	$(Q)KILN_BUILD=$(B) scripts/bench_load
	$(Q)KILN_BUILD=$(B) scripts/bench_memory
	$(Q)KILN_BUILD=$(B) scripts/bench_quantised
	$(Q)KILN_BUILD=$(B) scripts/bench_text
# SDXL and its refiner: 13 GB of disk, 16 GB of memory; PEERS=1 draws with diffusers in turns (PEERS_PYTHON).
bench-sdxl: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) scripts/bench --families sdxl,refiner --steps 3 --runs 1 $(if $(PEERS),--turns 2 --peers --peer-steps 2)
	$(Q)KILN_BUILD=$(B) scripts/bench_memory --family sdxl --size 1024 --budgets 4G --steps 3 --runs 1
bench-peers: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) scripts/bench --peers
	$(Q)KILN_BUILD=$(B) scripts/bench_load --peer
	$(Q)KILN_BUILD=$(B) scripts/bench_steering --peers
# make parity-full [MODELS="sdxl refiner"]: all of sd15, sd21, sdxl, refiner when not given
parity-full: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) $(if $(MODELS),MODELS="$(MODELS)") scripts/parity-full
# The same prompts through a ComfyUI checkout: make parity-comfyui COMFYUI=FOLDER PYTHON=PYTHON [ARGS="--only WORD"]
parity-comfyui: setup
	$(Q)$(MAKE) --no-print-directory all
	$(Q)KILN_BUILD=$(B) $(if $(PYTHON),PARITY_PYTHON="$(PYTHON)") scripts/parity-comfyui "$(COMFYUI)" $(ARGS)
# What becomes of each of ComfyUI's templates: make test-templates TEMPLATES=FOLDER [ARGS="-v"] (docs/compatibility.md)
test-templates: setup
	$(Q)$(MAKE) --no-print-directory all
	$(Q)KILN_BUILD=$(B) scripts/test-templates "$(TEMPLATES)" $(ARGS)
# Ids of every kind of tokenizer against the libraries, on 100,000 strings each: make parity-tokenizers PYTHON=PYTHON [ARGS="--n 2000 gpt2"]
parity-tokenizers: setup
	$(Q)$(MAKE) --no-print-directory $(B)/plugins/kiln-tokenizer.so
	$(Q)$(or $(PYTHON),python3) scripts/parity_tokenizers.py --build $(B) $(ARGS)
# The store under every fault at every place: thousands of kills, about ten minutes.
torture: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) scripts/torture
# Sixteen processes on one store for an hour, under kills, a full disk, jumping clocks and failing locks: make soak [MINUTES=60] [OTHER=KILN]
.PHONY: soak
soak: setup
	$(Q)$(MAKE) --no-print-directory tests
	$(Q)KILN_BUILD=$(B) scripts/soak --minutes $(or $(MINUTES),60) $(if $(OTHER),--other $(OTHER))
# Which branches of engine/ the tests take, and whether they fail when a token is changed (docs/coverage.md).
.PHONY: coverage mutation
coverage: setup
	$(Q)$(MAKE) --no-print-directory $(parallel) COVERAGE=1 NVCC= KILN_BUILD=build/coverage tests
	$(Q)KILN_BUILD=build/coverage scripts/coverage $(ARGS) $(FILTER)
mutation:
	$(Q)scripts/mutate $(ARGS)
fuzz:
	$(Q)scripts/setup --dev
	$(Q)scripts/fuzz

# ---- install -------------------------------------------------------------------------------------------
root := $(DESTDIR)$(PREFIX)
pydir = $(libdir)/python3/dist-packages/kiln
cli = KILN_CONFIG=off $(B)/kiln
libdir := $(root)/lib
install: all $(if $(NVCC),cuda)
	install -d "$(root)/bin" "$(libdir)/kiln/plugins" "$(libdir)/pkgconfig" "$(root)/include/kiln" "$(root)/share/kiln/workflows"
	install -m 755 $(B)/kiln "$(root)/bin/kiln"
	install -m 755 $(B)/libkiln.so.$(abi_major) "$(libdir)/"
	ln -sf libkiln.so.$(abi_major) "$(libdir)/libkiln.so"
	install -m 755 $(plugin_so) "$(libdir)/kiln/plugins/"
	rm -rf "$(libdir)"/kiln/plugins/kiln-*.data
	cp -R $(B)/plugins/*.data "$(libdir)/kiln/plugins/"
	$(if $(NVCC),install -m 755 $(B)/backends/kiln-cuda.so "$(libdir)/kiln/kiln-cuda.so")
	install -m 644 include/kiln/*.h include/kiln/*.hpp "$(root)/include/kiln/"
	cp -R workflows/. "$(root)/share/kiln/workflows/"
	cp -R docs/library "$(root)/share/kiln/"
	chmod -R u=rwX,go=rX "$(root)/share/kiln" "$(libdir)/kiln" "$(root)/include/kiln"
	install -d "$(root)/share/man/man1" "$(root)/share/bash-completion/completions" "$(root)/share/zsh/site-functions" "$(root)/share/fish/vendor_completions.d"
	$(cli) manual >"$(root)/share/man/man1/kiln.1"
	for c in $$($(cli) completions names manual); do $(cli) manual $$c >"$(root)/share/man/man1/kiln-$$c.1" || exit 1; done
	$(cli) completions bash >"$(root)/share/bash-completion/completions/kiln"
	$(cli) completions zsh >"$(root)/share/zsh/site-functions/_kiln"
	$(cli) completions fish >"$(root)/share/fish/vendor_completions.d/kiln.fish"
	rm -rf "$(root)/share/doc/kiln" && install -d "$(root)/share/doc/kiln"
	cp -R README.md LICENSE docs "$(root)/share/doc/kiln/"
	install -d "$(pydir)" && install -m 644 bindings/python/kiln/*.py "$(pydir)/"
	cp -R plugins/template plugins/templates plugins/examples "$(root)/share/kiln/"
	install -d "$(root)/share/kiln/rust/src" && install -m 644 bindings/rust/Cargo.toml "$(root)/share/kiln/rust/" && install -m 644 bindings/rust/src/*.rs "$(root)/share/kiln/rust/src/"
	chmod -R u=rwX,go=rX "$(root)/share/doc/kiln" "$(root)/share/kiln"
	for p in kiln kiln-engine; do sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/$$p.pc.in >"$(libdir)/pkgconfig/$$p.pc"; done
uninstall:
	rm -rf "$(root)/bin/kiln" "$(libdir)/kiln" "$(libdir)/libkiln.so" "$(libdir)/libkiln.so.$(abi_major)" "$(libdir)/pkgconfig/kiln.pc" "$(libdir)/pkgconfig/kiln-engine.pc" "$(root)/include/kiln" "$(root)/share/kiln" "$(root)/share/doc/kiln" "$(pydir)"
	rm -f "$(root)"/share/man/man1/kiln.1 "$(root)"/share/man/man1/kiln-*.1 "$(root)/share/bash-completion/completions/kiln" "$(root)/share/zsh/site-functions/_kiln" "$(root)/share/fish/vendor_completions.d/kiln.fish"
# A Debian package, BUILD/kiln_VERSION_ARCH.deb (DEB_COMPRESS=none makes it at once).
.PHONY: deb
deb: all $(if $(NVCC),cuda)
	$(Q)env -u MAKEFLAGS -u MFLAGS KILN_BUILD=$(B) VERSION=$(VERSION) scripts/make-deb $(MAKE) -s install NVCC="$(NVCC)" DEBUG="$(DEBUG)" SAN="$(SAN)" CC="$(CC)" PREFIX=/usr

# ---- for who works on kiln ----------------------------------------------------------------------------
# make format writes; make format-check says what make format would change; make lint takes two minutes, make analyze
# (clang's static analyzer) a quarter of an hour. Continuous integration runs format-check and lint.
sources = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cpp' '*.hpp')
linted = $(filter-out engine/backend/cuda/% plugins/examples/python/%,$(filter engine/% nodes/% plugins/%,$(filter %.c,$(sources))))
analyzer = clang-analyzer-*
cppcheck = cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress=internalAstError --suppress=ctuuninitvar --suppress=returnDanglingLifetime -Iinclude -Iengine
# The large kernels are looked at as they are compiled, and not for each set of instructions that a header of theirs asks about.
kernel_levels := plain avx2 avx512 avx512bf16
kernel_files := $(kernel_levels:%=engine/backend/cpu/kernels_%.c)
kernel_macros_plain := -U__F16C__ -U__AVX512BF16__
kernel_macros_avx2 := -D__F16C__=1 -U__AVX512BF16__
kernel_macros_avx512 := $(kernel_macros_avx2)
kernel_macros_avx512bf16 := -D__F16C__=1 -D__AVX512BF16__=1
compdb:
	$(Q)scripts/compdb "$(CC)" > compile_commands.json
format:
	clang-format -i $(sources)
format-check:
	$(Q)printf '%s\n' $(sources) | xargs -P $$(nproc) -n 100 clang-format --dry-run -Werror || { echo "these differ from .clang-format: make format" >&2; exit 1; }
lint: compdb
	$(Q)printf '%s\n' $(linted) | xargs -P $$(nproc) -n 8 clang-tidy --quiet -p . --checks='-$(analyzer)'
	$(Q)printf '%s\n' $(filter-out $(kernel_files),$(filter engine/% nodes/% plugins/%,$(filter %.c,$(sources)))) | xargs -P $$(nproc) -n 8 $(cppcheck)
	$(Q)printf '%s\n' $(foreach k,$(kernel_levels),"$(kernel_macros_$k) engine/backend/cpu/kernels_$k.c") | xargs -P $$(nproc) -L 1 $(cppcheck)
analyze: compdb
	$(Q)printf '%s\n' $(linted) | xargs -P $$(nproc) -n 4 clang-tidy --quiet -p .
clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' -type f 2>/dev/null)
