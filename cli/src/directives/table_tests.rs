//! Tests that docs/use/gcc.md and `accord lint` agree: every row has a source in which it is found, or says why not.

use super::{Language, Outside, findings};
use Language::{C, FreeFortran};

/// The start of a row, and a source for it; the row is about the source's last directive or call.
const EXAMPLES: &[(&str, Language, &str)] = &[
    ("`set`, `init`, `shutdown` in C", C, "#pragma acc init\n"),
    ("a directive with a misspelled name", C, "#pragma acc paralel\n"),
    ("`update device(x)`", C, "#pragma acc declare create(x)\n#pragma acc update device(x)\n"),
    ("`create(image[N])`", C, "#pragma acc enter data create(image[N])\n"),
    ("`create(image[N])`", FreeFortran, "real :: a(n)\n!$acc data copy(a(n))\n"),
    ("`copy(a[1:n][1:m])`", C, "#pragma acc data copy(a[1:n][1:m])\n"),
    ("Fortran: `update self(v(1:9:2))`", FreeFortran, "!$acc update self(v(1:9:2))\n"),
    ("Fortran: `present(x%a)`", FreeFortran, "type(cell), pointer :: x\n!$acc enter data copyin(x%a)\n"),
    ("`num_gangs(a, b)` in C", C, "#pragma acc parallel num_gangs(a, b)\n"),
    ("`num_gangs(100000)`", C, "#define GANGS (1 << 17)\n#pragma acc parallel num_gangs(GANGS)\n"),
    ("`num_gangs(100000)`", FreeFortran, "integer, parameter :: gangs = 65536\n!$acc parallel num_gangs(Gangs)\n"),
    (
        "`declare create(x)` of a Fortran allocatable",
        FreeFortran,
        "real, allocatable :: x(:)\n!$acc declare create(x)\n",
    ),
    ("C++: `reduction(+: s)`", C, "void f(double &s) {\n#pragma acc parallel loop reduction(+: s)\n"),
    (
        "C++: `loop reduction(+: s)`",
        C,
        "void f(int &s) {\n#pragma acc parallel copy(s)\n#pragma acc loop reduction(+: s)\n",
    ),
    ("`acc_on_device(t)`", C, "int f(void) {\n    return acc_on_device(acc_device_host);\n}\n"),
    ("`tile(...)`", C, "#pragma acc parallel loop tile(32, 32)\n"),
    (
        "`copy(p)` with `p => cells%value`",
        FreeFortran,
        "type(cell), allocatable, target :: cells(:)\np => cells%value\n!$acc data copy(p)\n",
    ),
    (
        "Fortran: `acc_copyin(x)`",
        FreeFortran,
        "subroutine s(x)\n  real :: x(:)\n  call acc_copyin(x)\nend subroutine\n",
    ),
    ("Fortran: `copy(x)` of a parameterized type", FreeFortran, "type(t(5)) :: x\n!$acc parallel copy(x)\n"),
    ("`set`, `init`, `shutdown` in Fortran", FreeFortran, "!$acc set device_num(1)\n"),
    ("`wait(devnum: n: queues: list)`", C, "#pragma acc wait(devnum:1:queues:2)\n"),
    ("`wait(devnum: ...)` as a clause", C, "#pragma acc parallel wait(devnum:1:2)\n"),
    ("`self`, `self(c)`", C, "#pragma acc parallel self\n"),
    ("`attach(t.p)`", C, "#pragma acc parallel copy(t) attach(t.p)\n"),
    ("`copyin(readonly: a)`", C, "#pragma acc data copyin(readonly: a)\n"),
    ("`default` of `data`", C, "#pragma acc data default(none)\n"),
    ("`async` and `wait` of `data`", C, "#pragma acc data copy(a) async(1)\n"),
    ("`create(zero: a)`", C, "#pragma acc data create(zero: a)\n"),
    ("`r[1:2][1:2]`", C, "#pragma acc data copy(r[1:2][1:2])\n"),
    ("`device_type(...)`", C, "#pragma acc parallel device_type(nvidia)\n"),
    ("`gang(dim: n)`", C, "#pragma acc loop gang(dim: 1)\n"),
    ("an array twice", C, "#pragma acc update self(a[0:1], a[5:1])\n"),
    ("an array twice", FreeFortran, "!$acc parallel copyin(a(1:n)) copyout(a(m:k))\n"),
    ("`reduction` of `*p`", C, "#pragma acc parallel loop reduction(+: *p)\n"),
    ("`reduction` of `*p`", C, "#pragma acc parallel loop reduction(+: s) reduction(max: s)\n"),
    ("`reduction` of `*p`", C, "#pragma acc kernels reduction(+: s)\n"),
    ("`reduction` of `*p`", FreeFortran, "real, pointer :: p\n!$acc parallel loop reduction(+: p)\n"),
    ("`copy(*p)`", C, "#pragma acc data copy(*p)\n"),
    ("`copy(*p)`", C, "#pragma acc data copy(s[0].p[0:n])\n"),
    ("Fortran: `copy(a)`, `present(a)` of a whole dummy", FreeFortran, "real :: a(*)\n!$acc data present(a)\n"),
    ("Fortran: `use_device(a)` of a dummy", FreeFortran, "real :: a(*)\n!$acc host_data use_device(a)\n"),
    ("Fortran: `use_device(a)` of a dummy", FreeFortran, "integer :: n\n!$acc host_data use_device(n)\n"),
    ("`use_device(s.p)`", C, "#pragma acc host_data use_device(s.p)\n"),
    ("`use_device(s.p)`", FreeFortran, "type(cell) :: x\n!$acc host_data use_device(x%a)\n"),
    ("reductions of arrays", C, "#pragma acc parallel loop reduction(+: s[0:3])\n"),
    ("reductions of arrays", FreeFortran, "real :: s(3)\n!$acc parallel loop reduction(+: s)\n"),
    ("reductions of members", C, "#pragma acc parallel loop reduction(max: p->most)\n"),
    ("reductions of members", FreeFortran, "!$acc parallel loop reduction(+: x%total)\n"),
    (
        "Fortran: a dummy argument `character(:), allocatable`",
        FreeFortran,
        "subroutine s(c)\n  character(:), allocatable :: c\n  !$acc parallel copy(c)\nend\n",
    ),
    (
        "Fortran: `use_device(a)` of an allocatable",
        FreeFortran,
        "real, allocatable :: a(:)\n!$acc host_data use_device(a)\n",
    ),
    (
        "Fortran: an internal procedure",
        FreeFortran,
        "program p\n  !$acc parallel wait(f(2))\n  !$acc end parallel\ncontains\n  integer function f(x)\n  end function\nend program\n",
    ),
    (
        "Fortran: directives of OpenACC in a region of OpenMP",
        FreeFortran,
        "!$omp parallel\n!$acc enter data copyin(a)\n!$omp end parallel\n",
    ),
    (
        "`private(a)` of an array",
        FreeFortran,
        "subroutine s(n)\n  real :: a(n)\n  !$acc parallel loop private(a)\nend\n",
    ),
    (
        "Fortran: `copy(x%a)`, `present(x%a)` and so on of a dummy argument",
        FreeFortran,
        "subroutine s(x)\n  type(cell) :: x\n  !$acc parallel copy(x%a)\nend\n",
    ),
    ("C++: `copyin(this)`", C, "#pragma acc enter data copyin(this)\n"),
    (
        "Fortran: an array of a `class`",
        FreeFortran,
        "subroutine s(u)\n  class(cell) :: u(:)\n  !$acc parallel copy(u)\nend\n",
    ),
    (
        "Fortran: `copy(x%a)` in a `select type`",
        FreeFortran,
        "subroutine s(x)\n  class(cell) :: x\n  select type (x)\n  type is (cell)\n  !$acc parallel copy(x%a)\n  end select\nend\n",
    ),
    ("`routine bind(name)`", C, "#pragma acc routine bind(f) seq\n"),
    ("`do concurrent` under `loop`", FreeFortran, "!$acc parallel loop\ndo concurrent (i = 1:n)\n"),
    ("strided sections in Fortran's `data` clauses", FreeFortran, "!$acc data copy(v(1:9:2))\n"),
];

/// A row's note that lint has no rule for it.
const UNSEEN: &str = "lint can't see it:";

fn rows() -> Vec<String> {
    let page = include_str!("../../../docs/use/gcc.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter(|row| !row.starts_with("written |") && !row.starts_with("---"));
    rows.map(str::to_owned).collect()
}

#[test]
fn every_row_of_the_table_is_found_or_says_why_not() {
    let rows = rows();
    assert!(rows.len() > 30, "{rows:#?}");
    for row in &rows {
        let known = EXAMPLES.iter().any(|(begin, ..)| row.starts_with(begin));
        assert!(known != row.contains(UNSEEN), "neither an example nor the words \"{UNSEEN}\", or both: {row}");
    }
    for (begin, language, source) in EXAMPLES {
        assert!(rows.iter().any(|row| row.starts_with(begin)), "no row begins with {begin}");
        // The later columns of a row name its versions: each row holds for 12 or for 13.
        let found = [12, 13].map(|gcc| findings(source, *language, gcc, &Outside::default()));
        let most = found.iter().max_by_key(|found| found.len()).expect("two");
        assert_eq!(most.len(), 1, "{begin}: {source}: {found:#?}");
    }
}

/// The same sources with the remedy applied.
#[test]
fn corrected_sources_have_no_findings() {
    for (language, source) in [
        (C, "#pragma acc parallel num_gangs(65535) reduction(+: s) copy(t) attach(p)\n"),
        (C, "#pragma acc parallel num_gangs(gangs) reduction(max: s, t)\n"),
        (C, "#pragma acc enter data attach(t.p)\n// acc_on_device(x)\n"),
        (FreeFortran, "real, allocatable :: x(:)\n!$acc declare create(x)\n!$acc enter data create(x)\n"),
        (FreeFortran, "real, allocatable :: x(:)\n!$acc declare device_resident(x)\n"),
        (FreeFortran, "type(cell), pointer :: x\n!$acc enter data copyin(x)\n!$acc enter data copyin(x%a)\n"),
        (FreeFortran, "subroutine s(x)\n  real, contiguous :: x(:)\n  call acc_copyin(x)\nend subroutine\n"),
        (
            FreeFortran,
            "subroutine s(x)\n  real :: x(*), y(3)\n  call acc_copyin(x(1:3))\n  call acc_copyin(y)\nend subroutine\n",
        ),
        (FreeFortran, "subroutine s(x, n)\n  real, allocatable :: x(:)\n  call acc_copyin(x)\nend subroutine\n"),
        (FreeFortran, "real :: total, parts(3)\n!$acc parallel loop reduction(+: total) private(parts)\ndo i = 1, 3\n"),
        (FreeFortran, "integer, parameter :: n = 3\nreal :: a(2 * n)\n!$acc parallel loop private(a)\n"),
        (FreeFortran, "!$acc parallel wait(f(2)) copy(v(2:9), w(:, 3))\n"),
        (FreeFortran, "!$omp parallel do\n!$omp end parallel do\n!$acc enter data copyin(a)\n"),
        (FreeFortran, "type(t(5)) :: x\n!$acc enter data copyin(x)\n!$acc enter data copyin(x%v)\n"),
        (C, "#pragma acc enter data copyin(this[0:1], this->p[0:n])\n"),
        (
            C,
            "#pragma acc host_data use_device(p, q) if_present\n#pragma acc parallel loop reduction(+: s) reduction(max: t)\n",
        ),
        (C, "#pragma acc update self(a[i], b[0:1]) device(c[0:n], s.p[0:1], t.p[0:1])\n"),
        (
            FreeFortran,
            "real :: a(*)\nreal, pointer :: p(:)\n!$acc data present(a(1:n))\n!$acc host_data use_device(p)\n",
        ),
        (
            FreeFortran,
            "subroutine s(u)\n  class(cell) :: u(:)\n  select type (u)\n  type is (cell)\n  !$acc parallel copy(u)\n  end select\nend\n",
        ),
        (FreeFortran, "subroutine s(u)\n  class(cell) :: u\n  !$acc parallel copy(u)\nend\n"),
        (FreeFortran, "type(cell) :: x\n!$acc parallel copy(x%a)\n"),
        (FreeFortran, "subroutine s(x)\n  type(cell) :: x\n  !$acc enter data copyin(x%a)\nend\n"),
    ] {
        for gcc in [12, 13, 15] {
            assert_eq!(findings(source, language, gcc, &Outside::default()), [], "{source}");
        }
    }
}
