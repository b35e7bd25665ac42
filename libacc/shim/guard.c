/* Calls an error callback so that nothing it throws gets any further: the frames above are Rust's, which exceptions of other
   languages must not cross. C can't catch them, so the frame of accord_call_guarded has a personality of its own. */

#include <stdint.h>
#include <unwind.h>

extern char accord_guard_landing[] __attribute__((visibility("hidden")));

/* Whatever unwinds (an exception, a thread that ends itself) goes on at the landing instead. */
__attribute__((visibility("hidden"), used))
_Unwind_Reason_Code accord_guard_personality(int version, _Unwind_Action actions, uint64_t class,
                                             struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    (void)class;
    (void)exception;
    if ((actions & _UA_SEARCH_PHASE) != 0)
        return _URC_HANDLER_FOUND;
    _Unwind_SetIP(context, (uintptr_t)accord_guard_landing);
    return _URC_INSTALL_CONTEXT;
}

/* int accord_call_guarded(void (*callback)(void *, void *, void *), void *, void *, void *): 0 if it came back, 1 if it has thrown.
   Encoding 0x1b of the personality is a distance of four bytes: it lies in the same object. */
#if defined __x86_64__
__asm__(".pushsection .text.accord_guard, \"ax\", @progbits\n"
        ".globl accord_call_guarded\n"
        ".hidden accord_call_guarded\n"
        ".type accord_call_guarded, @function\n"
        "accord_call_guarded:\n"
        "    .cfi_startproc\n"
        "    .cfi_personality 0x1b, accord_guard_personality\n"
        "    push %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    mov %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    call *%rax\n"
        "    xor %eax, %eax\n"
        "    jmp 1f\n"
        ".globl accord_guard_landing\n"
        ".hidden accord_guard_landing\n"
        "accord_guard_landing:\n"
        "    mov $1, %eax\n"
        "1:  pop %rbp\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size accord_call_guarded, . - accord_call_guarded\n"
        ".popsection\n");
#elif defined __aarch64__
__asm__(".pushsection .text.accord_guard, \"ax\", @progbits\n"
        ".globl accord_call_guarded\n"
        ".hidden accord_call_guarded\n"
        ".type accord_call_guarded, @function\n"
        "accord_call_guarded:\n"
        "    .cfi_startproc\n"
        "    .cfi_personality 0x1b, accord_guard_personality\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset x29, -16\n"
        "    .cfi_offset x30, -8\n"
        "    mov x29, sp\n"
        "    .cfi_def_cfa x29, 16\n"
        "    mov x9, x0\n"
        "    mov x0, x1\n"
        "    mov x1, x2\n"
        "    mov x2, x3\n"
        "    blr x9\n"
        "    mov w0, #0\n"
        "    b 1f\n"
        ".globl accord_guard_landing\n"
        ".hidden accord_guard_landing\n"
        "accord_guard_landing:\n"
        "    mov w0, #1\n"
        "1:  ldp x29, x30, [sp], #16\n"
        "    .cfi_restore x29\n"
        "    .cfi_restore x30\n"
        "    .cfi_def_cfa sp, 0\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size accord_call_guarded, . - accord_call_guarded\n"
        ".popsection\n");
#else
#error "the guard around error callbacks is not written for this processor"
#endif
