//! The treatment of small sources: what is read, what is refused and why, and what is written.

use super::constructs::constructs;
use super::source::Source;
use super::{Form, Input, Module};
use crate::analysis::Rules;
use crate::ir::{CallKind, Construct, Element, Kind, Shape, Statement, Storage, VarId};
use crate::poly::Poly;
use crate::{Mode, Rewritten, rewrite_fortran};

const FIXED: Form = Form::Fixed { columns: 72 };
const RULES: Rules = Rules { prove: true, implicit_reductions: true, no_alias: false };

fn with_module<T>(text: &str, form: Form, module: &str, use_input: impl FnOnce(&Input<'_>) -> T) -> T {
    let module =
        |name: &str| (name == "other").then(|| Module::Compiled(module.to_owned())).filter(|_| !module.is_empty());
    let include = |name: &str| {
        (name == "sizes.h").then(|| {
            "      integer m\n      parameter (m = 5)\n      double precision u(m)\n      common /fields/ u\n"
                .to_owned()
        })
    };
    use_input(&Input { text, form, name: "a.f90", module: &module, include: &include })
}

fn read(text: &str, form: Form) -> Construct {
    with_module(text, form, "", |input| constructs(&Source::new(text, form, "a.f90"), input)).remove(0)
}

fn rewritten(text: &str, form: Form, mode: Mode) -> Rewritten {
    with_module(text, form, "", |input| rewrite_fortran(input, mode, RULES))
}

/// A procedure with a construct.
fn procedure(declarations: &str, body: &str) -> String {
    format!(
        "subroutine s(n, a, b, c)\n implicit none\n integer :: n\n real(8) :: a(n), b(0:n), c(n, *)\n integer :: i, j\n real(8) :: t, x\n{declarations}\n!$acc kernels\n{body}\n!$acc end kernels\nend subroutine\n"
    )
}

fn reasons(declarations: &str, body: &str) -> Vec<String> {
    let new = rewritten(&procedure(declarations, body), Form::Free, Mode::Parallel);
    new.messages.into_iter().filter(|message| message.refused).map(|message| message.text).collect()
}

fn parallel(declarations: &str, body: &str) -> String {
    let text = procedure(declarations, body);
    let new = rewritten(&text, Form::Free, Mode::Parallel);
    let refused: Vec<_> = new.messages.iter().filter(|message| message.refused).collect();
    assert_eq!(refused, Vec::<&crate::Message>::new(), "{text}");
    let lines = new.text.unwrap();
    lines.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

fn directives(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("!$acc ")).collect()
}

fn variable<'c>(construct: &'c Construct, name: &str) -> &'c crate::ir::Variable {
    construct.variables.iter().find(|variable| variable.name == name).unwrap()
}

fn first_loop(list: &[Statement]) -> &crate::ir::Loop {
    match &list[0].kind {
        Kind::Loop(first) => first,
        other => panic!("{other:?}"),
    }
}

#[test]
fn accesses_have_the_slowest_dimension_first() {
    let construct = read(&procedure("", "do i = 2, n\n c(i, 3) = a(i-1) + 2*x\nend do"), Form::Free);
    let body = &first_loop(&construct.body).body;
    let Kind::Effect(effect) = &body[0].kind else { panic!("{body:?}") };
    let last = effect.accesses.last().unwrap();
    let i = construct.variables.iter().position(|variable| variable.name == "i").map(VarId).unwrap();
    assert!(last.write);
    assert_eq!(last.subscripts, [Some(Poly::constant(3)), Some(Poly::variable(i))]);
    let read = effect.accesses.iter().find(|access| construct.variables[access.variable.0].name == "a").unwrap();
    assert_eq!(read.subscripts, [Poly::variable(i).minus(&Poly::constant(1))]);
    assert_eq!(first_loop(&construct.body).lower, Some(Poly::constant(2)));
}

#[test]
fn names_mean_what_their_declarations_say() {
    let text = "module fields\n integer, parameter :: dp = selected_real_kind(15)\n real(dp), target :: g(10)\n real(dp), pointer :: p(:)\nend module\n\
                real(8) function f(x, y)\n use fields, only: g, q => p, dp\n real(dp) :: x(*), y\n target :: x\n real(kind=dp), save :: z\n real w\n complex(dp) e\n logical l\n common /all/ w\n integer(2) k2\n\
                !$acc kernels\n do i = 1, 9\n f = y + z + w + g(i) + q(i) + x(i) + v\n l = e == 0\n k2 = 1\n end do\n!$acc end kernels\nend function\n";
    let construct = read(text, Form::Free);
    assert_eq!(construct.obstacle, None);
    let of = |name| {
        let variable = variable(&construct, name);
        (variable.shape, variable.element, variable.storage)
    };
    assert_eq!(of("f"), (Shape::Scalar, Element::Real(64), Storage::Reference));
    assert_eq!(of("y"), (Shape::Scalar, Element::Real(64), Storage::Reference));
    assert_eq!(of("z"), (Shape::Scalar, Element::Real(64), Storage::Static));
    assert_eq!(of("w"), (Shape::Scalar, Element::Real(32), Storage::Static));
    assert_eq!(of("g"), (Shape::Array, Element::Real(64), Storage::Static));
    assert_eq!(of("q"), (Shape::Other, Element::Real(64), Storage::Static));
    assert_eq!(of("x"), (Shape::Other, Element::Real(64), Storage::Reference));
    assert_eq!(of("e"), (Shape::Scalar, Element::Complex(128), Storage::Local));
    assert_eq!(of("l"), (Shape::Scalar, Element::Logical, Storage::Local));
    assert_eq!(of("v"), (Shape::Scalar, Element::Real(32), Storage::Local));
    assert_eq!(of("i"), (Shape::Scalar, Element::Integer { signed: true, bits: 32 }, Storage::Local));
    assert_eq!(of("k2"), (Shape::Scalar, Element::Integer { signed: true, bits: 16 }, Storage::Local));
    assert!(variable(&construct, "g").address_taken);
}

#[test]
fn module_files_say_what_names_of_other_modules_mean() {
    let module = "GFORTRAN module version '15' created from m.f90\n(() ())\n\n()\n\n()\n\n()\n\n()\n\n()\n\n\
                  (2 'T' 'other' '' 1 ((DERIVED UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN UNKNOWN 0 0 ALLOC_COMP) ((3 'x' (REAL 8 0 0 0 REAL ()) (2 0 DEFERRED () \
                  () () ()) () () (UNKNOWN-FL UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN UNKNOWN 0 0 ALLOCATABLE DIMENSION) UNKNOWN-ACCESS ())) PUBLIC () 0 0 () () 0 () () () 0 0)\n\
                  20 'dp' 'other' '' 1 ((PARAMETER UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN IMPLICIT-SAVE 0 0) () (INTEGER 4 0 0 0 INTEGER ()) 0 0 () (CONSTANT (INTEGER 4 0 0 0 INTEGER ()) 0 '8' ()) () 0 () () () 0 0)\n\
                  21 'field' 'other' '' 1 ((VARIABLE UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN IMPLICIT-SAVE 0 0 ALLOCATABLE DIMENSION OACC_DECLARE_CREATE) () (REAL 8 0 0 0 REAL ()) 0 0 () (2 0 DEFERRED () () () ()) 0 () () () 0 0)\n\
                  26 'sq' 'other' '' 1 ((PROCEDURE UNKNOWN-INTENT MODULE-PROC DECL UNKNOWN 0 0 FUNCTION ELEMENTAL PURE OACC_ROUTINE_LOP_SEQ) () (REAL 8 0 0 0 REAL ()) 27 0 (28) () 26 () () () 0 0)\n\
                  31 'tt' 'other' '' 1 ((VARIABLE UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN IMPLICIT-SAVE 0 0) () (DERIVED 2 0 0 0 DERIVED ()) 0 0 () () 0 () () () 0 0)\n)\n\n\
                  ('T' 0 2 'dp' 0 20 'field' 0 21 'sq' 0 26 'tt' 0 31)\n";
    let text = "subroutine s\n use other\n implicit none\n integer i\n!$acc kernels\n do i = dp, 9\n field(i, 1) = sq(field(i, 2)) + tt%x(i, 1)\n end do\n!$acc end kernels\nend\n";
    let all = with_module(text, Form::Free, module, |input| constructs(&Source::new(text, Form::Free, "a.f90"), input));
    assert_eq!(all[0].obstacle, None);
    assert_eq!((variable(&all[0], "field").shape, variable(&all[0], "field").storage), (Shape::Array, Storage::Static));
    assert_eq!(variable(&all[0], "tt%x").shape, Shape::Array);
    let of = first_loop(&all[0].body);
    assert_eq!(of.lower, Some(Poly::constant(8)));
    let Kind::Effect(effect) = &of.body[0].kind else { panic!("{of:?}") };
    assert_eq!((effect.calls[0].name.as_str(), effect.calls[0].kind), ("sq", CallKind::Sequential));
    assert!(variable(&all[0], "field").mapped && !variable(&all[0], "tt%x").mapped);
    let unread = read(text, Form::Free);
    assert_eq!(unread.obstacle.unwrap().reason, "what field means is not known: the module file of other was not read");
}

#[test]
fn modules_of_other_sources_are_read() {
    let text = "subroutine s\n use other, t => u\n implicit none\n integer i\n!$acc kernels\n do i = 1, n\n t(i) = double(w)\n end do\n!$acc end kernels\nend\n";
    let other = "module other\n integer, parameter :: n = 7\n real, parameter :: two = 2\n real(n + 1) :: u(n), w\n!$acc declare create(w)\ncontains\n \
                 pure real function double(x)\n!$acc routine seq\n real, intent(in) :: x\n double = two*x\n end function\nend module\n";
    let module = |name: &str| (name == "other").then(|| Module::Source { text: other.to_owned(), form: Form::Free });
    let input = Input { text, form: Form::Free, name: "a.f90", module: &module, include: &|_| None };
    let all = constructs(&Source::new(text, Form::Free, "a.f90"), &input);
    assert_eq!(all[0].obstacle, None);
    assert_eq!(variable(&all[0], "t").element, Element::Real(64));
    assert!(variable(&all[0], "w").mapped);
    let of = first_loop(&all[0].body);
    assert_eq!(of.last, Some(Poly::constant(7)));
    let Kind::Effect(effect) = &of.body[0].kind else { panic!("{of:?}") };
    assert_eq!(effect.calls[0].kind, CallKind::Pure);
}

#[test]
fn included_files_declare() {
    let text = "      subroutine s\n      implicit none\n      include 'sizes.h'\n      integer i\nc$acc kernels\n      do 10 i = 1, m\n   10 u(i) = 1\nc$acc end kernels\n      end\n";
    let construct = read(text, FIXED);
    assert_eq!((construct.obstacle.clone(), variable(&construct, "u").storage), (None, Storage::Static));
    assert_eq!(first_loop(&construct.body).last, Some(Poly::constant(5)));
    let missing = read(&text.replace("sizes.h", "none.h"), FIXED);
    assert_eq!(missing.obstacle.unwrap().reason, "what u means is not known: the file none.h was not read");
}

#[test]
fn scalars_are_live_as_the_procedure_reads_them() {
    let live = |before: &str, after: &str| {
        let text = format!(
            "program p\n implicit none\n integer :: i, k\n real(8) :: t, a(9)\n{before}\n!$acc kernels\n do i = 1, 9\n t = i\n a(i) = t\n end do\n!$acc end kernels\n{after}\nend program\n"
        );
        variable(&read(&text, Form::Free), "t").live_after
    };
    assert!(!live("", ""));
    assert!(live("", "print *, t"));
    assert!(!live("", "t = 1\nprint *, t"));
    assert!(live("", "if (k > 0) t = 1\nprint *, t"));
    assert!(!live("", "if (k > 0) then\n t = 1\nelse\n t = 2\nend if\nprint *, t"));
    assert!(live("do k = 1, 2\n a(1) = t", "end do"));
    assert!(!live("do k = 1, 2\n t = 0\n a(1) = t", "t = 1\nend do"));
    assert!(!live("if (k > 1) then", "else\n a(1) = t\nend if"));
    assert!(live("", "contains\n subroutine u\n print *, t\n end subroutine"));
    assert!(live("", "10 if (k == 1) goto 10\n t = 1\nprint *, t"));
    assert!(live("", "!$acc update host(t)"));
}

#[test]
fn loops_with_a_cycle_are_branches() {
    let construct = read(&procedure("", "do i = 1, n\n if (a(i) > 0) cycle\n t = a(i)\n b(i) = t\nend do"), Form::Free);
    let Kind::Branch { arms, .. } = &first_loop(&construct.body).body[0].kind else { panic!("{construct:?}") };
    assert_eq!((arms[0].len(), arms[1].len()), (1, 2));
}

#[test]
fn kernels_become_parallel_loops_on_their_lines() {
    let text = "subroutine s(n, a)\n integer n\n real a(n)\n!$acc kernels loop copyin(a) & ! all\n!$acc async(1)\n do i = 1, n\n  a(i) = 1\n end do\nend\n";
    let new = rewritten(text, Form::Free, Mode::Parallel).text.unwrap();
    let expected = "# 1 \"a.f90\"\nsubroutine s(n, a)\n integer n\n real a(n)\n\n\n# 4 \"a.f90\"\n!$acc parallel loop copyin(a) firstprivate(n) async(1)\n# 6 \"a.f90\"\n do i = 1, n\n  a(i) = 1\n end do\nend\n";
    assert_eq!(new, expected);
}

#[test]
fn combined_constructs_may_have_an_end() {
    let text = "subroutine s(n, a)\n integer n\n real a(n)\n!$acc kernels loop\n do i = 1, n\n  a(i) = 1\n end do\n!$acc end kernels loop\n!$acc kernels loop\n do i = 1, n\n  a(i) = 2\n end do\n!$acc kernels\n a = 3\n!$acc end kernels\nend\n";
    for mode in [Mode::Parallel, Mode::Check] {
        let new = rewritten(text, Form::Free, mode).text.unwrap();
        assert!(!new.contains("kernels"), "{new}");
    }
}

#[test]
fn variables_may_be_named_kind() {
    let text = procedure(" integer :: m, kind", "do i = 1, n\n t = a(i)\n b(i) = t\nend do\nforall (j = 1:n) b(j) = 1");
    let new = rewritten(&text, Form::Free, Mode::Check);
    let new = new.text.unwrap_or_else(|| panic!("{:?}", new.messages));
    assert!(new.contains("real(8) :: accord_p_t") && !new.contains("kind("), "{new}");
}

#[test]
fn fixed_form_stays_in_its_columns() {
    let text = "      subroutine s(n, a, b)\n      dimension a(n,n), b(n,n)\nC$ACC KERNELS\nC$ACC LOOP INDEPENDENT PRIVATE(A_TEMPORARY_OF_THE_LOOP, ANOTHER_ONE)\n      DO 10 J = 1, N\n      DO 10 I = 1, N\n      A_TEMPORARY_OF_THE_LOOP = I\n      ANOTHER_ONE = J\n   10 A(I,J) = B(I,J) + A_TEMPORARY_OF_THE_LOOP + ANOTHER_ONE\nC$ACC END KERNELS\n      end\n";
    for mode in [Mode::Parallel, Mode::Check] {
        let new = rewritten(text, FIXED, mode).text.unwrap();
        assert!(new.lines().all(|line| line.len() <= 72), "{new}");
        assert!(!new.contains("DO 10"), "{new}");
    }
}

/// The value of the outer loop's variable is the only one that a private copy could have meant.
#[test]
fn a_variable_that_is_only_read_is_not_private() {
    let text = parallel(
        "",
        "!$acc loop independent\ndo j = 1, 2\n!$acc loop independent private(i, j, t)\n do i = 1, n\n  t = b(i)\n  c(i, j) = t\n end do\nend do",
    );
    assert_eq!(directives(&text), ["parallel loop firstprivate(n)", "loop private(t, i)"], "{text}");
}

/// No `data` construct: what one around maps is found present by each part.
#[test]
fn parts_in_a_data_construct_need_none_of_their_own() {
    let body = "do i = 1, n\n a(i) = 1\nend do\ndo i = 1, n\n b(i) = a(i)\nend do";
    let within = |clauses: &str| {
        let text = procedure("", body).replace("!$acc kernels", &format!("!$acc data {clauses}\n!$acc kernels"));
        let text = text.replace("!$acc end kernels", "!$acc end kernels\n!$acc end data");
        let new = rewritten(&text, Form::Free, Mode::Parallel).text.unwrap();
        directives(&new).into_iter().filter(|one| one.starts_with("data")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(within("present(A) copyin(b(0:n))"), ["data present(A) copyin(b(0:n))"]);
    assert_eq!(within("present(a)"), ["data present(a)", "data copy(b)"]);
    assert_eq!(within("copy(a, b) if(n > 3)"), ["data copy(a, b) if(n > 3)", "data copy(a) copy(b)"]);
    assert_eq!(within("no_create(a, b)"), ["data no_create(a, b)", "data copy(a) copy(b)"]);
}

/// GCC passes no arguments to a region that does nothing.
#[test]
fn loops_without_iterations_leave_the_device() {
    let text =
        parallel("", "do i = 3, 2\n!$acc loop independent\n do j = 1, 2\n  c(i, j) = 1\n end do\nend do\nb(1) = i");
    assert_eq!(
        directives(&text),
        ["data copy(b)", "parallel num_gangs(1) num_workers(1) firstprivate(i)", "end parallel", "end data"]
    );
    let text = parallel("", "do i = 1, 9, -1\n a(i) = 1\nend do");
    assert_eq!(directives(&text), Vec::<&str>::new(), "{text}");
}

/// A part must not hold the `cycle` of a loop around it.
#[test]
fn a_loop_whose_part_would_leave_it_stays_whole() {
    let nest = "do j = 1, n\n  b(j) = a(i) + j\n end do";
    for jump in ["if (a(i) > 1) cycle", "if (a(i) > 1) then\n a(i) = 0\n cycle\n end if\n t = 1"] {
        let body = format!("do i = 2, n\n {nest}\n a(i) = a(i - 1)\n {jump}\nend do");
        assert_eq!(reasons("", &body).len(), 1, "{body}");
        let host =
            format!("do i = 2, n\n {nest}\n {jump}\nend do").replace("a(i) > 1", "i > 1").replace("a(i) = 0\n", "");
        let text = parallel("", &format!("{host}\nb(1) = 2"));
        assert!(directives(&text).contains(&"parallel loop firstprivate(i, n)"), "{text}");
    }
}

#[test]
fn control_flow_stays_on_the_host() {
    let text = parallel(
        "",
        "if (n > 3) then\n do i = 1, n\n  a(i) = 1\n end do\nelse\n do i = 1, n\n  a(i) = 2\n end do\nend if",
    );
    assert!(text.contains("if (n > 3) then\n!$acc parallel loop"), "{text}");
    assert_eq!(directives(&text).iter().filter(|text| text.starts_with("parallel loop")).count(), 2, "{text}");
}

#[test]
fn statements_of_arrays_become_loops() {
    let text = parallel(
        "",
        "a = b(1:n)*2\na(2:n:2) = 0\nwhere (b(1:n) > 1) a = -b(1:n)\nforall (i = 1:n, j = 1:2, c(i, j) > 0) c(i, j) = i",
    );
    assert_eq!(directives(&text).iter().filter(|text| text.starts_with("parallel loop")).count(), 4, "{text}");
    assert!(
        text.contains("a(accord_i1) = b(accord_i1-(lbound(a,1))+(1))*2")
            || text.contains("a(accord_i1) = b(accord_i1)*2"),
        "{text}"
    );
    assert!(text.contains("integer(kind(i)) :: accord_i"), "{text}");
    let text = parallel("", "do concurrent (i = 1:n, j = 1:2, i /= j)\n c(i, j) = i\nend do");
    assert!(text.contains("if (accord_i1 /= accord_i2) then\n c(accord_i1, accord_i2) = accord_i1"), "{text}");
    let text = parallel("real(8) :: s1", "s1 = sum(a*b(1:n), mask=a > 0)\nt = maxval(a)");
    assert!(text.contains("reduction(+:s1)") && text.contains("reduction(max:t)"), "{text}");
}

#[test]
fn array_assignments_that_may_overlap_stay() {
    for body in
        ["a(2:n) = a(1:n-1)", "a(n:1:-1) = a", "forall (i = 2:n) a(i) = a(i-1)", "where (a(2:n) > 0) a(1:n-1) = 1"]
    {
        let text = procedure("", &format!("{body}\ndo i = 1, n\n b(i) = 1\nend do"));
        let new = rewritten(&text, Form::Free, Mode::Parallel);
        assert!(new.text.as_ref().is_some_and(|text| text.contains(body)), "{text} {new:?}");
    }
    let pointers = reasons("real(8), pointer :: p(:), q(:)", "p = q(1:n)");
    assert_eq!(pointers, ["the right side may read elements of p that are stored"]);
}

/// A statement that becomes no loop has its line and its reason, also where another one of the construct is opened.
#[test]
fn statements_of_arrays_that_stay_have_their_reason() {
    let opened = "do i = 1, n\n b(i) = 1\nend do";
    for (declarations, statement, reason) in [
        ("integer :: k", "k = maxloc(a, dim=1)", "maxloc stays one statement"),
        ("real :: r", "r = sum(a)", "sum of another type than its result"),
        ("integer :: k", "a = sum(c(1:n, 1:5), dim=k)", "dim of sum is no constant"),
        ("", "a = sum(c(1:n, 1:5), dim=3)", "dim of sum is another dimension than the result leaves out"),
        ("", "a(2:n) = a(1:n-1)", "the right side may read elements of a that are stored"),
        ("", "a = [(t, j = 1, n)]", "an array constructor in an assignment of arrays"),
        (
            "real(8) :: h(4)",
            "do concurrent (j = 1:n) local(h)\n a(j) = 1\nend do",
            "h in local of do concurrent is no scalar with a known type",
        ),
    ] {
        for (body, line) in [(statement.to_owned(), 0), (format!("{opened}\n{statement}"), 3)] {
            let text = procedure(declarations, &body);
            let new = rewritten(&text, Form::Free, Mode::Parallel);
            let first = 1 + text[..text.find("!$acc kernels").unwrap()].matches('\n').count() as u32;
            let refused: Vec<(u32, &str)> =
                new.messages.iter().filter(|one| one.refused).map(|one| (one.place.number, &*one.text)).collect();
            assert_eq!(refused, [(first + 1 + line, reason)], "{text}");
            assert!(new.messages.iter().all(|one| one.construct.start == first), "{:?}", new.messages);
        }
    }
    // Inside of a promised loop it is one iteration's.
    let promised = "!$acc loop independent\ndo i = 1, n\n c(i, 1:3) = c(i, 2:4)\nend do";
    assert_eq!(reasons("", promised), Vec::<String>::new());
}

#[test]
fn each_kind_of_refusal_has_its_reason() {
    let in_loop = |statement: &str| format!("do i = 1, n\n {statement}\nend do");
    let cases: &[(&str, &str, &str)] = &[
        ("", "a(i) = a(i-1)", "loop carried dependence of a prevents parallelization"),
        ("", "t = a(i) + t*2", "loop carried dependence of t prevents parallelization"),
        ("", "b(i) = i\n x = b(i)", ""),
        ("", "if (a(i) > 0) return", "return leaves the construct"),
        ("", "if (a(i) > 0) stop 1", "stop ends the program"),
        ("", "if (a(i) > 0) goto 10\n10 a(i) = 1", "goto"),
        ("", "print *, a(i)", "input or output"),
        ("", "write (*, *) a(i)", "input or output"),
        ("", "call unknown(a(i))", "a call of unknown prevents parallelization"),
        ("real(8), external :: f", "a(i) = f(b(i))", "a call of f prevents parallelization"),
        ("real(8), pointer :: p(:)", "p => null()", "a pointer is changed"),
        ("real(8), allocatable :: p(:)", "allocate(p(9))", "an allocation"),
        ("real(8), allocatable :: p(:)", "deallocate(p)", "an allocation or a pointer changes"),
        ("real(8), pointer :: p(:), q(:)", "p(i) = q(i)", "q and p may overlap"),
        ("real(8), pointer :: p(:)\n real(8), target :: q(9)", "p(i) = q(i)", "q and p may overlap"),
        ("real(8) :: e(9), f(9)\n equivalence (e, f)", "e(i) = f(i)", "f and e may overlap"),
        ("real(8), volatile :: v", "a(i) = v", "v is volatile"),
        ("", "!$acc atomic\n t = t + 1", "an atomic update of a scalar"),
        (
            "",
            "!$acc atomic update\n b(j) = b(j) + 1\n !$acc end atomic",
            "a call of acc atomic prevents parallelization",
        ),
        ("", "!$acc wait(1)\n a(i) = 1", "\"acc wait\" is inside of the construct"),
        ("", "associate (y => a(i))\n y = 1\n end associate", "names of a block or associate"),
        ("", "block\n integer :: k\n k = 1\n a(i) = k\n end block", "names of a block or associate"),
        ("", "if (i > 3) then\n if (a(i) > 0) cycle\n b(i) = 1\n end if\n a(i) = 2", ""),
        (
            "integer :: k",
            "inner: do j = 1, 2\n do k = 1, 2\n if (c(i, j) > 0) cycle inner\n c(i, j) = k\n end do\n end do inner",
            "cycle of another loop than the innermost one",
        ),
        ("", "a(i) = y", "what y means is not known"),
    ];
    for (declarations, statement, reason) in cases {
        let found = reasons(declarations, &in_loop(statement));
        let expected: Vec<String> = (!reason.is_empty()).then(|| (*reason).to_owned()).into_iter().collect();
        assert_eq!(found, expected, "{statement}");
    }
}

#[test]
fn loops_without_a_known_trip_count_are_refused() {
    let unknown = "the loop's trip count is not known before it starts";
    let uneven = "the loop's step is not a constant, its variable is no integer, or its bounds change";
    let cases: &[(&str, &str)] = &[
        ("do while (a(1) > 0)\n a(1) = a(1) - 1\nend do", unknown),
        ("do i = 1, n\n if (a(i) > 0) exit\n a(i) = 1\nend do", unknown),
        ("do i = 1, n, j\n a(i) = 1\nend do", uneven),
        ("do x = 1, n\n a(1) = 1\nend do", uneven),
        ("do i = 1, n\n n = 5\n a(i) = 1\nend do", uneven),
        ("!$acc loop seq\ndo i = 1, n\n a(i) = 1\nend do", "loop seq"),
    ];
    for (body, reason) in cases {
        assert_eq!(reasons("", body), [*reason], "{body}");
    }
}

#[test]
fn last_values_are_kept_or_the_loop_is_refused() {
    let text = parallel("", "do i = 1, n\n a(i) = 1\nend do\nb(0) = i");
    assert!(text.contains("i = (1) + max(0, ((n) - (1) + (1)) / (1)) * (1)"), "{text}");
    let text = procedure("", "do i = 1, n\n t = a(i)\n a(i) = t + 1\nend do")
        .replace("end subroutine", "b(0) = t\nend subroutine");
    let new = rewritten(&text, Form::Free, Mode::Parallel).text.unwrap();
    let lines: Vec<&str> = new.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "block",
        "real(kind(t)) :: accord_l_t",
        "accord_l_t = t",
        "!$acc parallel loop private(t) copy(accord_l_t) firstprivate(n)",
        "do i = 1, n",
        " t = a(i)",
        " a(i) = t + 1",
        "if ((n) - i < 1) then",
        "accord_l_t = t",
        "end if",
        "end do",
        "t = accord_l_t",
        "end block",
    ];
    assert!(lines.windows(expected.len()).any(|window| window == expected), "{new}");
    for body in ["if (a(i) > 1) then\n t = 2\n a(i) = t\n end if", "t = 1\n do j = 1, n\n t = j\n c(i, j) = t\n end do"]
    {
        let text = procedure("", &format!("do i = 1, n\n {body}\nend do"))
            .replace("end subroutine", "b(0) = t\nend subroutine");
        let found: Vec<String> =
            rewritten(&text, Form::Free, Mode::Parallel).messages.into_iter().map(|one| one.text).collect();
        let reason = "the value of t is used after the loop: last value needed prevents parallelization".to_owned();
        assert!(found.contains(&reason), "{found:?}");
    }
}

#[test]
fn inner_loops_whose_temporaries_are_read_later_run_in_order() {
    let levels = |rest: &str| {
        let body = format!("do i = 1, n\n t = 0\n do j = 1, n\n  t = a(j)\n  c(j, i) = t\n end do\n {rest}\nend do");
        let text = parallel("", &body);
        directives(&text).iter().filter(|text| text.starts_with("loop ")).count()
    };
    assert_eq!((levels("b(i) = 1"), levels("b(i) = t"), levels("b(i) = j"), levels("t = 1\n b(i) = t")), (1, 0, 0, 1));
}

#[test]
fn unparsable_loops_are_left_unchanged() {
    let text = procedure("", "do i = 1, n\n a(i) = = 1\nend do");
    let new = rewritten(&text, Form::Free, Mode::Parallel);
    assert_eq!((new.text, new.messages.len()), (None, 1));
}
