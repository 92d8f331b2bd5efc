/* Entry points that must not disturb the caller: exported driver symbols, dlsym, and trampolines for unknown functions.
 *
 *   shunt_exports  one `jmp *slot` per symbol of the spec, 16 bytes apart, exported under the driver's own names
 *   shunt_thunks   what a slot points to until it is resolved: pushes its number and enters shunt_resolve_entry
 *   shunt_slots    the slots (runtime/link/runtime_link.h), in .data so that they work before any constructor ran
 *   dlsym, dlvsym  ask shunt_dl*sym_decide; "not ours" ends in a tail jump, so the real function still sees the
 *                  application's return address (RTLD_NEXT and RTLD_DEFAULT depend on it)
 *   shunt_unknown  a fixed pool of trampolines for entry points the spec does not know
 *
 * Any thread; no memory is allocated; every register that may carry an argument is saved around our C++ code. */
#define HIDDEN(name) .globl name; .hidden name

        .text

/* ---- exported driver symbols ------------------------------------------------------------------------------------ */
        .p2align 4
        HIDDEN(shunt_exports)
shunt_exports:
#define SLOT(symbol, index) \
        .p2align 4; .globl symbol; .type symbol, @function; symbol: endbr64; jmp *(shunt_slots + 8 * index)(%rip); \
        .size symbol, . - symbol
#include "interpose/generated/stubs.S"
#undef SLOT

        .p2align 4
        HIDDEN(shunt_exports_end)
shunt_exports_end:

/* ---- resolver thunks -------------------------------------------------------------------------------------------- */
        .p2align 4
        HIDDEN(shunt_thunks)
shunt_thunks:
        .cfi_startproc
        .cfi_def_cfa_offset 16   /* exact after the push, which is where a fault could be looked at */
#define SLOT(symbol, index) .p2align 4; endbr64; pushq $index; jmp shunt_resolve_entry
#include "interpose/generated/stubs.S"
#undef SLOT
        .cfi_endproc

/* Saves what may carry an argument of a driver call (cuParamSetf passes a float). 8 + 8 * 8 + 128 bytes. */
        .macro SAVE_ARGUMENTS
        pushq %rax
        .cfi_adjust_cfa_offset 8
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        pushq %rdx
        .cfi_adjust_cfa_offset 8
        pushq %rcx
        .cfi_adjust_cfa_offset 8
        pushq %r8
        .cfi_adjust_cfa_offset 8
        pushq %r9
        .cfi_adjust_cfa_offset 8
        pushq %r10
        .cfi_adjust_cfa_offset 8
        subq $128, %rsp
        .cfi_adjust_cfa_offset 128
        movaps %xmm0, (%rsp)
        movaps %xmm1, 16(%rsp)
        movaps %xmm2, 32(%rsp)
        movaps %xmm3, 48(%rsp)
        movaps %xmm4, 64(%rsp)
        movaps %xmm5, 80(%rsp)
        movaps %xmm6, 96(%rsp)
        movaps %xmm7, 112(%rsp)
        .endm

        .macro RESTORE_ARGUMENTS
        movaps (%rsp), %xmm0
        movaps 16(%rsp), %xmm1
        movaps 32(%rsp), %xmm2
        movaps 48(%rsp), %xmm3
        movaps 64(%rsp), %xmm4
        movaps 80(%rsp), %xmm5
        movaps 96(%rsp), %xmm6
        movaps 112(%rsp), %xmm7
        addq $128, %rsp
        .cfi_adjust_cfa_offset -128
        popq %r10
        .cfi_adjust_cfa_offset -8
        popq %r9
        .cfi_adjust_cfa_offset -8
        popq %r8
        .cfi_adjust_cfa_offset -8
        popq %rcx
        .cfi_adjust_cfa_offset -8
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        popq %rax
        .cfi_adjust_cfa_offset -8
        .endm

        .p2align 4
        .type shunt_resolve_entry, @function
shunt_resolve_entry:             /* stack: slot number, the application's return address, its stack arguments */
        .cfi_startproc
        .cfi_def_cfa_offset 16
        SAVE_ARGUMENTS
        movl 192(%rsp), %edi
        call shunt_resolve
        movq %rax, %r11
        RESTORE_ARGUMENTS
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        jmp *%r11
        .cfi_endproc
        .size shunt_resolve_entry, . - shunt_resolve_entry

/* ---- dlsym and dlvsym ------------------------------------------------------------------------------------------- */
        .p2align 4
        .globl dlsym
        .type dlsym, @function
dlsym:
        .cfi_startproc
        endbr64
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq %rsp, %rdx           /* where the answer goes */
        movq 24(%rsp), %rcx       /* the caller */
        call shunt_dlsym_decide
        testl %eax, %eax
        jne 1f
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        jmp *shunt_real_dlsym(%rip)
1:
        .cfi_adjust_cfa_offset 24
        popq %rax
        .cfi_adjust_cfa_offset -8
        addq $16, %rsp
        .cfi_adjust_cfa_offset -16
        ret
        .cfi_endproc
        .size dlsym, . - dlsym

        .p2align 4
        .globl dlvsym
        .type dlvsym, @function
dlvsym:
        .cfi_startproc
        endbr64
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        pushq %rdx
        .cfi_adjust_cfa_offset 8
        subq $16, %rsp
        .cfi_adjust_cfa_offset 16
        movq %rsp, %rcx
        movq 40(%rsp), %r8
        call shunt_dlvsym_decide
        testl %eax, %eax
        jne 1f
        addq $16, %rsp
        .cfi_adjust_cfa_offset -16
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        jmp *shunt_real_dlvsym(%rip)
1:
        .cfi_adjust_cfa_offset 40
        popq %rax
        .cfi_adjust_cfa_offset -8
        addq $32, %rsp
        .cfi_adjust_cfa_offset -32
        ret
        .cfi_endproc
        .size dlvsym, . - dlvsym

/* ---- functions the spec does not know --------------------------------------------------------------------------- */
        .p2align 4
        HIDDEN(shunt_unknown)
shunt_unknown:
        .cfi_startproc
        .set index, 0
        .rept 256                 /* kUnknownPool in state.h */
        .p2align 4
        endbr64
        movq (shunt_unknown_targets + 8 * index)(%rip), %r11
        jmp shunt_unknown_entry
        .set index, index + 1
        .endr
        .cfi_endproc

        .p2align 4
        .type shunt_unknown_entry, @function
shunt_unknown_entry:             /* r11: the real function */
        .cfi_startproc
        cmpl $0, shunt_drain_on(%rip)
        jne 1f
        jmp *%r11
1:
        pushq %r11
        .cfi_adjust_cfa_offset 8
        SAVE_ARGUMENTS
        movq 192(%rsp), %rdi
        call shunt_drain_unknown
        RESTORE_ARGUMENTS
        popq %r11
        .cfi_adjust_cfa_offset -8
        jmp *%r11
        .cfi_endproc
        .size shunt_unknown_entry, . - shunt_unknown_entry

/* ---- the slots -------------------------------------------------------------------------------------------------- */
        .data
        .p2align 6
        HIDDEN(shunt_slots)
        .type shunt_slots, @object
shunt_slots:
#define SLOT(symbol, index) .quad shunt_thunks + 16 * index
#include "interpose/generated/stubs.S"
#undef SLOT
        .size shunt_slots, . - shunt_slots

        .section .note.GNU-stack, "", @progbits
