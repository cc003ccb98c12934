# yoke - plain GNU make, wildcards for sources, pkg-config where a package has it.
#
#   make             build build/yoke and build/libyoke.a, nothing else
#   make deps        install the packages that are missing, nothing else
#   make demo        install packages, build, fetch MNIST, train, print
#   make test        install packages, build, run every test (T=pattern: those that match)
#   make quick       plain unit tests and six scripts, in two minutes
#   make test-long   campaigns that take minutes to hours
#   make check       format, layers, dead code, cppcheck, clang-tidy, man page and more
#   make bench       speed, as ratios to baselines in the same run
#   make install     PREFIX=/usr/local; DESTDIR is honoured
#   make SAN=1       a build with AddressSanitizer and UBSan (SAN=thread: ThreadSanitizer)
#
# V=1 shows the commands. DEPS='build test' narrows what 'make deps' looks for, to groups of
# packages that tools/deps.sh names.
VERSION := 0.1.0
PREFIX ?= /usr/local
CC ?= cc
ARCH := $(shell $(CC) -dumpmachine 2>/dev/null)

ifdef SAN
BUILD ?= build/san-$(SAN)
else
BUILD ?= build
endif

PKGS := jansson libxxhash zlib libturbojpeg ompi-c
CFLAGS ?= -O3 -g
WARN := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla \
        -Wwrite-strings
# Contraction is off so that an element-wise loop gives the same bits with any vector width that the
# compiler picks; kernels that want fused multiply-add ask for it themselves.
# oneDNN computes with OpenMP. clang would bring a second run-time library for it, and
# ThreadSanitizer cannot see how its threads meet, so its pragmas are left out in those builds.
OPENMP := $(if $(filter fuzz thread,$(SAN))$(findstring clang,$(CC)),,-fopenmp)
MPI_INCLUDES := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I ompi-c 2>/dev/null))
BASE_CFLAGS := -std=gnu17 $(OPENMP) -D_GNU_SOURCE -DYK_VERSION='"$(VERSION)"' -fno-math-errno \
               -fno-trapping-math -ffp-contract=off -pthread $(WARN) -Iinclude -Isrc -I. \
               $(MPI_INCLUDES)
ALL_CFLAGS := $(BASE_CFLAGS) $(CFLAGS)
PRIVATE_LIBS := -linih -lmd -ldnnl -lgomp -pthread -lm
LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null || \
            echo -ljansson -lxxhash -lz -lturbojpeg -lmpi) $(PRIVATE_LIBS)
FUZZ_MAIN := tests/fuzz/driver.c
ifeq ($(SAN),1)
ALL_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
LIBS += -fsanitize=address,undefined
else ifeq ($(SAN),thread)
ALL_CFLAGS += -fsanitize=thread -fno-omit-frame-pointer -O1
LIBS += -fsanitize=thread
else ifeq ($(SAN),fuzz)
# libFuzzer comes with clang only, and clang cannot link objects with gcc's sanitizers, so this is a
# build of its own.
override CC := clang
ALL_CFLAGS += -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
              -fno-omit-frame-pointer -O1
LIBS += -fsanitize=fuzzer,address,undefined
FUZZ_MAIN :=
# No fuzz target computes with kernels, whose instrumented builds would take minutes, so they are
# built as quickly as possible.
ISA_SAN := -fno-sanitize=all -O0
endif

LIB_SRC := $(filter-out %_test.c %_isa.c,$(wildcard src/*/*.c src/*/*/*.c))
ISA_SRC := $(wildcard src/kernel/*_isa.c)
CMD_SRC := $(wildcard cmd/*.c)
TEST_SRC := $(wildcard src/*/*_test.c src/*/*/*_test.c)
FUZZ_SRC := $(filter-out tests/fuzz/driver.c,$(wildcard tests/fuzz/*.c))
HEADERS := $(wildcard include/*.h src/*/*.h src/*/*/*.h cmd/*.h)

# A *_isa.c file is compiled once per instruction set, with its own names each time; kernel.c picks
# one at run time. The sets pass vectors between functions in different ways (-Wpsabi), which does
# not matter inside one file.
ISAS := plain
ifneq ($(filter x86_64%,$(ARCH)),)
ISAS += avx2 avx512
endif
ISA_FLAGS_plain :=
ISA_FLAGS_avx2 := -mavx2 -mfma -mbmi -mbmi2
ISA_FLAGS_avx512 := -mavx2 -mfma -mbmi -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl

NETS := $(sort $(wildcard models/*.net))
LIB_OBJ := $(BUILD)/obj/models.o $(LIB_SRC:%.c=$(BUILD)/obj/%.o) \
           $(foreach i,$(ISAS),$(ISA_SRC:%.c=$(BUILD)/obj/%.$(i).o))
CMD_OBJ := $(CMD_SRC:%.c=$(BUILD)/obj/%.o)
TESTS := $(TEST_SRC:%.c=$(BUILD)/%)
FUZZERS := $(FUZZ_SRC:%.c=$(BUILD)/%)

# 'quiet' stands before a command. Make prints the command with V=1, and else one short line.
quiet = $(if $(V),,@printf '  %-5s %s\n' $(1) $@ &&)
# Targets that call make again use every core, unless the caller said how many.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
SUBMAKE = +$(MAKE) --no-print-directory $(JOBS)

.PHONY: all
.DEFAULT_GOAL := all
all: $(BUILD)/yoke $(BUILD)/link-flags
	@:

$(BUILD)/yoke: $(CMD_OBJ) $(BUILD)/libyoke.a
	$(call quiet,LINK) $(CC) $(LDFLAGS) -o $@ $(CMD_OBJ) $(BUILD)/libyoke.a $(LIBS)

$(BUILD)/libyoke.a: $(LIB_OBJ)
	@rm -f $@
	$(call quiet,AR) $(AR) qcs $@ $^

# The libraries that a program needs beside libyoke.a; some tests build such programs.
$(BUILD)/link-flags: Makefile
	@mkdir -p $(@D) && echo '$(strip $(LIBS))' >$@

$(BUILD)/obj/%.o: %.c Makefile | $(BUILD)/headers-found
	@mkdir -p $(@D)
	$(call quiet,CC) $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The nets of models/ are part of the library, as text: `yoke train lenet` works in any folder.
$(BUILD)/obj/models.c: models $(NETS) tools/nets.awk
	@mkdir -p $(@D)
	$(call quiet,AWK) awk -f tools/nets.awk $(NETS) >$@.tmp && mv $@.tmp $@
$(BUILD)/obj/models.o: $(BUILD)/obj/models.c Makefile | $(BUILD)/headers-found
	$(call quiet,CC) $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/obj/%.$(1).o: %.c Makefile | $(BUILD)/headers-found
	@mkdir -p $$(@D)
	$$(call quiet,CC) $(CC) $(ALL_CFLAGS) $(ISA_SAN) -ffp-contract=fast -Wno-psabi \
	    $(ISA_FLAGS_$(1)) -DYK_ISA=$(1) -DYK_ISA_$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

$(BUILD)/src/%_test: src/%_test.c $(BUILD)/libyoke.a
	@mkdir -p $(@D)
	$(call quiet,TEST) $(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libyoke.a \
	    $(LIBS) -lcmocka

# This test stands between the code and the disk (tests/disk.h): every call that changes a file goes
# through it.
DISK_CALLS := open close write pwrite fsync ftruncate mkdir rename unlink rmdir symlink
$(BUILD)/src/train/crash_test: LDFLAGS += $(foreach c,$(DISK_CALLS),-Wl,--wrap=$(c))

# A fuzz target links with libFuzzer under SAN=fuzz, and elsewhere with a main() that replays files.
$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(FUZZ_MAIN) $(BUILD)/libyoke.a
	@mkdir -p $(@D)
	$(call quiet,FUZZ) $(CC) $(ALL_CFLAGS) -Wno-missing-prototypes $(LDFLAGS) -MMD -MP \
	    -o $@ $< $(FUZZ_MAIN) $(BUILD)/libyoke.a $(LIBS)

# Programs that test scripts run; tool() of tests/tools/helpers.sh finds them. Most read and write
# yoke's files without its code; LINKED ones use the library. No build has sanitizers in them.
TOOLS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/tools/*.c tests/mpi/*.c tests/cluster/*.c))
LINKED := $(patsubst %,$(BUILD)/tests/%,tools/onnx_cases mpi/comm mpi/faults mpi/notes)
$(TOOLS): $(BUILD)/%: %.c Makefile | $(BUILD)/headers-found
	@mkdir -p $(@D)
	$(call quiet,TOOL) $(CC) $(BASE_CFLAGS) -Wno-missing-field-initializers -O2 -g $(LDFLAGS) \
	    -MMD -MP -o $@ $< $(TOOL_LIBS)
$(BUILD)/tests/tools/forge $(BUILD)/tests/tools/json_check: TOOL_LIBS := -ljansson
$(BUILD)/tests/tools/npz_reader: TOOL_LIBS := -lz
$(BUILD)/tests/tools/photo: TOOL_LIBS := -lturbojpeg
$(LINKED): TOOL_LIBS := $(BUILD)/libyoke.a $(LIBS)
$(LINKED): $(BUILD)/libyoke.a

# A build never installs anything; if a header is missing, it says so once, in one sentence.
$(BUILD)/headers-found: tools/deps.sh
	@tools/deps.sh --check build
	@mkdir -p $(@D) && touch $@

.PHONY: unit-tests fuzz-tests clean
unit-tests: $(TESTS)
	@:
fuzz-tests: $(FUZZERS)
	@:

clean:
	rm -rf build

# --- set-up, demo, tests, benchmarks ---

DEPS ?= build demo test
.PHONY: deps demo test quick test-long test-builds bench bench-peers
deps:
	@tools/deps.sh $(DEPS)

demo:
	@tools/deps.sh build demo
	@$(SUBMAKE) all
	@tools/mnist.sh $(BUILD)/yoke
	@tools/demo.sh $(BUILD)/yoke

# tests/run.sh knows which tests T=pattern names and which goals they need; nothing else is built or
# fetched.
TEST_SETS := unit cli mpi cluster fuzz
test quick:
	@tools/deps.sh build demo test
	@$(SUBMAKE) test-builds TEST_SETS='$(TEST_SETS)'
	@test -z "$$(tests/run.sh --goals mnist $(TEST_SETS))" || tools/mnist.sh $(BUILD)/yoke || \
	    echo "the tests that need MNIST will be skipped"
	@MADE=yes BUILD=$(BUILD) tests/run.sh $(TEST_SETS)
quick: TEST_SETS := quick

test-long:
	@tools/deps.sh build demo test long
	@$(SUBMAKE) all
	@BUILD=$(BUILD) LIMIT=7200 tests/run.sh long

test-builds: test-build-plain test-build-san-1 test-build-san-thread
test-build-%:
	@goals=$$(BUILD=$(BUILD) tests/run.sh --goals $* $(TEST_SETS)) || exit 1; \
	    test -z "$$goals" || $(MAKE) --no-print-directory \
	    $(if $(filter san-%,$*),SAN=$(*:san-%=%) BUILD=$(BUILD)/$*) $$goals

# Benchmarks that are C programs; the scripts of bench/ run them, and one program of the tests.
BENCHES := $(patsubst %,$(BUILD)/bench/%,softmax allreduce logreg matmul lanes alexnet)
.PHONY: bench-build
bench-build: all $(BENCHES) $(BUILD)/tests/mpi/comm
bench:
	@tools/deps.sh build demo bench
	@$(SUBMAKE) bench-build
	@tools/mnist.sh $(BUILD)/yoke
	@BUILD=$(BUILD) bench/run.sh $(ROUNDS)

bench-peers:
	@tools/deps.sh build demo bench peers
	@$(SUBMAKE) all $(BUILD)/bench/softmax $(BUILD)/bench/alexnet
	@tools/mnist.sh $(BUILD)/yoke
	@BUILD=$(BUILD) bench/peers.sh $(ROUNDS)

# ROUNDS=3 is quicker and less certain than the number of rounds that a script picks.
# The compiler may do all it can for a baseline; yoke's step in the same program is that of the
# installed library.
BASELINES := $(patsubst %,$(BUILD)/obj/bench/%.o,gemm logreg allreduce)
$(BASELINES): ALL_CFLAGS += -march=native -ffast-math
$(BUILD)/bench/softmax: $(BUILD)/obj/bench/gemm.o
$(BENCHES): $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libyoke.a
	@mkdir -p $(@D)
	$(call quiet,LINK) $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/libyoke.a $(LIBS)

# --- checks: each prints one line that starts with 'ok check-', or complaints ---

# The first of these are scripts in tools/ that look at the text of the tree.
TEXT_CHECKS := check-layers check-words check-lines check-files check-tags
CHECKS := $(TEXT_CHECKS) check-unused check-format check-shell check-man check-aarch64 \
          check-cppcheck check-tidy
.PHONY: check $(CHECKS)
check:
	@tools/deps.sh build check
	@$(SUBMAKE) -k all || echo "going on without build/yoke"
	@$(SUBMAKE) -k -O $(CHECKS) 2>&1 | tee $(BUILD)/check.log; \
	    failed=$$(($(words $(CHECKS)) - $$(grep -c '^ok check-' $(BUILD)/check.log))); \
	    echo "$(words $(CHECKS)) checks, $$failed failed"; test $$failed -eq 0

$(TEXT_CHECKS):
	@tools/$@.sh

check-unused: $(LIB_OBJ) $(CMD_OBJ)
	@tools/check-unused.sh $^

C_DIRS := include src/* src/*/* cmd tests tests/* bench examples
C_FILES = $(sort $(wildcard $(foreach d,$(C_DIRS),$d/*.c $d/*.h)))
check-format:
	@clang-format --dry-run -Werror $(C_FILES)
	@echo "ok check-format: $(words $(C_FILES)) files"

SH_FILES = .ci/run $(wildcard tools/*.sh tests/*.sh tests/*/*.sh bench/*.sh examples/*.sh)
check-shell:
	@shellcheck -x -P SCRIPTDIR $(SH_FILES)
	@echo "ok check-shell: $(words $(SH_FILES)) scripts"

docs/yoke.1: $(BUILD)/yoke
	@mkdir -p $(@D)
	$(call quiet,MAN) $(BUILD)/yoke help --man >$@.tmp && mv $@.tmp $@

check-man: $(BUILD)/yoke
	@$(BUILD)/yoke help --man | diff -u docs/yoke.1 - || \
	    { echo "docs/yoke.1 is out of date: run 'make -B docs/yoke.1'"; exit 1; }
	@mandoc -Tlint -Wwarning docs/yoke.1
	@echo "ok check-man: docs/yoke.1 is what the option table says"

# The other architecture is compiled, not linked. Headers of other projects are the same on both, so
# those of this machine serve, after all others.
AARCH64_OBJ := $(patsubst %.c,$(BUILD)/aarch64/%.o,$(LIB_SRC) $(ISA_SRC) $(CMD_SRC))
$(BUILD)/aarch64/%.o: %.c Makefile
	@mkdir -p $(@D)
	@aarch64-linux-gnu-gcc $(BASE_CFLAGS) -Werror -O1 -idirafter /usr/include \
	    -DYK_ISA=plain -DYK_ISA_plain -MMD -MP -c -o $@ $<
check-aarch64: $(AARCH64_OBJ)
	@echo "ok check-aarch64: $(words $(AARCH64_OBJ)) files compile"

CPPCHECK_SRC := $(LIB_SRC) $(ISA_SRC) $(CMD_SRC) $(TEST_SRC) $(FUZZ_SRC)
check-cppcheck:
	@mkdir -p $(BUILD)/cppcheck
	@cppcheck --quiet -j $$(nproc) --cppcheck-build-dir=$(BUILD)/cppcheck --std=c11 \
	    --enable=warning,performance,portability --inline-suppr \
	    --suppressions-list=tools/cppcheck.txt --error-exitcode=1 -D_GNU_SOURCE \
	    -DYK_VERSION='"$(VERSION)"' -DYK_ISA=plain -DYK_ISA_plain -Iinclude -Isrc -I. \
	    $(CPPCHECK_SRC)
	@echo "ok check-cppcheck: $(words $(CPPCHECK_SRC)) files"

# Each file has a stamp, so that a second run looks only at files that changed. The widest
# instruction set stands for the others.
TIDY_OK := $(patsubst %.c,$(BUILD)/tidy/%.ok,$(LIB_SRC) $(ISA_SRC) $(CMD_SRC))
TIDY_ISA := $(lastword $(ISAS))
$(BUILD)/tidy/%_isa.ok: TIDY_FLAGS = -ffp-contract=fast -Wno-psabi $(ISA_FLAGS_$(TIDY_ISA)) \
                                      -DYK_ISA=$(TIDY_ISA) -DYK_ISA_$(TIDY_ISA)
$(BUILD)/tidy/%.ok: %.c $(HEADERS) .clang-tidy Makefile
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- $(BASE_CFLAGS) $(TIDY_FLAGS) 2>/dev/null || \
	    { echo "clang-tidy rejects $<"; exit 1; }
	@touch $@
check-tidy: $(TIDY_OK)
	@echo "ok check-tidy: $(words $(TIDY_OK)) files"

# --- installation ---

BINDIR = $(DESTDIR)$(PREFIX)/bin
LIBDIR = $(DESTDIR)$(PREFIX)/lib
INCLUDEDIR = $(DESTDIR)$(PREFIX)/include
SHAREDIR = $(DESTDIR)$(PREFIX)/share
INSTALLED = $(BINDIR)/yoke $(LIBDIR)/libyoke.a $(LIBDIR)/pkgconfig/yoke.pc $(INCLUDEDIR)/yoke.h \
            $(SHAREDIR)/man/man1/yoke.1 \
            $(SHAREDIR)/bash-completion/completions/yoke $(SHAREDIR)/zsh/site-functions/_yoke \
            $(SHAREDIR)/fish/vendor_completions.d/yoke.fish

define PKG_CONFIG_FILE
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: yoke
Description: trains models on CPUs
Version: $(VERSION)
Requires.private: $(PKGS)
Libs: -L$${libdir} -lyoke
Libs.private: $(PRIVATE_LIBS)
Cflags: -I$${includedir}
endef
export PKG_CONFIG_FILE

COMPLETIONS := $(BUILD)/completion/bash $(BUILD)/completion/zsh $(BUILD)/completion/fish
$(COMPLETIONS): $(BUILD)/yoke
	@mkdir -p $(@D)
	@$(BUILD)/yoke help --completion $(@F) >$@.tmp && mv $@.tmp $@

.PHONY: install uninstall
install: $(BUILD)/yoke $(COMPLETIONS)
	install -D -m 755 $(BUILD)/yoke $(BINDIR)/yoke
	install -D -m 644 $(BUILD)/libyoke.a $(LIBDIR)/libyoke.a
	install -D -m 644 include/yoke.h $(INCLUDEDIR)/yoke.h
	install -d $(LIBDIR)/pkgconfig
	printf '%s\n' "$$PKG_CONFIG_FILE" >$(LIBDIR)/pkgconfig/yoke.pc
	install -D -m 644 docs/yoke.1 $(SHAREDIR)/man/man1/yoke.1
	install -D -m 644 $(BUILD)/completion/bash $(SHAREDIR)/bash-completion/completions/yoke
	install -D -m 644 $(BUILD)/completion/zsh $(SHAREDIR)/zsh/site-functions/_yoke
	install -D -m 644 $(BUILD)/completion/fish $(SHAREDIR)/fish/vendor_completions.d/yoke.fish

uninstall:
	rm -f $(INSTALLED)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
