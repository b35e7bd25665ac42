//! Loops that are rewritten and loops that are refused: a nest for each kind.

use super::support::RULES;
use crate::analysis::Rules;
use crate::{Message, Mode, rewrite_c};

/// Returns messages about a construct in a function with some variables.
fn messages(construct: &str, rules: Rules, cxx: bool) -> Vec<Message> {
    let text = format!(
        "typedef struct {{ double *v; int n; }} part;\nint g(double);\nextern double m[64][64];\nstatic double w[64];\n\
         double f(double *restrict a, double *restrict b, double *p, double *q, int *k, int n, part *s)\n{{\n    int i, j, l;\n    double t = 0, sum = 0;\n    \
         volatile int v = 1;\n{construct}\n    return sum + v;\n}}\n"
    );
    let new = rewrite_c(&text, "a.c", cxx, Mode::Parallel, rules);
    assert_eq!(new.text.is_some(), new.messages.iter().any(|message| !message.refused), "{:?}", new.messages);
    new.messages
}

#[track_caller]
fn opens(nest: &str) {
    let all = messages(&format!("#pragma acc kernels\n{nest}"), RULES, false);
    assert!(all.iter().any(|message| message.text == "loop is parallelizable"), "{nest}: {all:?}");
}

#[track_caller]
fn promised(nest: &str) {
    let all = messages(&format!("#pragma acc kernels loop independent\n{nest}"), RULES, false);
    assert!(all.iter().any(|message| message.text.contains("(independent)")), "{nest}: {all:?}");
}

#[track_caller]
fn refuses(construct: &str, reason: &str) {
    let all = messages(construct, RULES, false);
    assert!(all.iter().all(|message| message.refused), "{construct}: {all:?}");
    assert!(all.iter().any(|message| message.text.contains(reason)), "{construct}: {all:?}");
}

#[test]
fn subscripts_are_proven() {
    opens("for (i = 0; i < n; i++) a[i] = b[i];");
    opens("for (i = 0; i < n; i++) a[2 * i] = a[2 * i + 1];");
    opens("for (i = 0; i < n; i += 2) a[i] = a[i + 1];");
    opens("for (i = n - 1; i >= 0; i--) a[i] = a[i] + 1;");
    opens("for (i = 0; i < n; i++) a[i] = a[i + n];");
    opens("for (i = 0; i < n; i++) for (j = 0; j < n; j++) a[i * n + j] = 1;");
    opens("for (i = 1; i < n - 1; i++) for (j = 1; j < n - 1; j++) a[i * n + j] = b[(i - 1) * n + j];");
    opens("for (i = 0; i < n; i++) for (j = 0; j < n; j++) for (l = 0; l < n; l++) a[(i * n + j) * n + l] = 1;");
    opens("for (i = 0; i < n; i++) for (j = 0; j < i; j++) a[i * n + j] = 1;");
    opens("for (i = 0; i < n; i++) for (j = 0; j < 64; j++) m[i][j] = m[i][j] + w[j];");
    opens("for (i = 0; i < n; i++) { int at = i * 3; a[at] = a[at + 1] + a[at + 2]; }");
    opens("for (i = 0; i < 10; i++) a[i] = a[i + 10];");
    // It runs if n is 1 at least.
    opens("for (i = 0; i < n; i++) a[i * n] = 1;");
    opens("for (i = 0; i < n; i++) k[i] = p[i] > 0;");
}

#[test]
fn constants_of_enumerations_are_numbers() {
    let text = "enum { ROWS = 3, COLUMNS };\nvoid f(double *restrict a)\n{\n    int i, j;\n#pragma acc kernels\n    for (i = 0; i < ROWS; i++)\n        \
                for (j = 0; j < COLUMNS; j++)\n            a[i * COLUMNS + j] = j;\n}\n";
    let new = rewrite_c(text, "a.c", false, Mode::Parallel, RULES);
    assert_eq!(new.messages[0].text, "loop is parallelizable", "{:?}", new.messages);
    assert!(!new.text.unwrap().contains("ROWS)"));
}

#[test]
fn dependences_are_refused() {
    for nest in [
        "for (i = 1; i < n; i++) a[i] = a[i - 1];",
        "for (i = 0; i < n; i++) a[i] = a[i + 1];",
        "for (i = 0; i < n; i++) a[k[i]] = 1;",
        "for (i = 0; i < n; i++) a[n - i] = a[i];",
        "for (i = 0; i < 11; i++) a[i] = a[i + 10];",
        "for (i = 0; i < n; i++) a[i * l] = 1;",
        "for (i = 0; i < n; i++) a[0] = i;",
        "for (i = 0; i < n; i++) a[i % 4] = 1;",
    ] {
        refuses(&format!("#pragma acc kernels\n{nest}"), "loop carried dependence of a prevents parallelization");
    }
    refuses("#pragma acc kernels\nfor (i = 0; i < n; i++) { a[i] = t; t = b[i]; }", "loop carried dependence of t");
    // Iterations of the outer loop reach into the next row. The inner loop may run in any order, and the outer one runs on the host.
    let rows =
        "#pragma acc kernels\nfor (i = 0; i < n; i++)\nfor (j = 0; j <= i; j++) a[i * 4 + j] = a[i * 4 + j] + 1;";
    let all = messages(rows, RULES, false);
    let lines: Vec<(u32, &str)> = all.iter().map(|message| (message.place.number, message.text.as_str())).collect();
    assert_eq!(lines, [(11, "loop carried dependence of a prevents parallelization"), (12, "loop is parallelizable")]);
}

#[test]
fn independent_clause_needs_no_analysis() {
    promised("for (i = 0; i < n; i++) a[k[i]] = 1;");
    promised("for (i = 0; i < n; i++) { int z = 0; while (z < i) z += 2; a[k[i]] = z; }");
    promised("for (i = 0; i < n; i++) { s->v[i] = g(1.0); }");
    promised("for (i = 0; i < n; i++)\n#pragma acc atomic update\n a[k[i]] += 1;");
}

#[test]
fn refused_loop_names_its_obstacle() {
    let kernels = |nest: &str| format!("#pragma acc kernels\n{nest}");
    refuses(&kernels("for (i = 0; i < n; i++) p[i] = q[k[i]];"), "q and p may overlap");
    refuses(&kernels("for (i = 0; i < n; i++) s->v[i] = p[i];"), "may overlap");
    refuses(
        "#pragma acc kernels\nfor (i = 0; i < n; i++) { if (b[i] > 0) { sum = b[i]; a[i] = sum; } }",
        "the value of sum is used after the loop",
    );
    refuses(&kernels("for (i = 0; i < n; i++) { if (b[i] > 3) break; a[i] = 1; }"), "trip count is not known");
    refuses(&kernels("for (i = 0; i < n; i++) { if (b[i] > 3) return 1; a[i] = 1; }"), "return leaves the construct");
    refuses(&kernels("{ for (i = 0; i < n; i++) { if (b[i] > 3) goto out; a[i] = 1; } out: ; }"), "goto");
    refuses(&kernels("for (i = 0; i < n; i++) a[i] = g(b[i]);"), "a call of g prevents parallelization");
    refuses(&kernels("for (i = 0; i < n; i++) a[i] = (j = i) + 1;"), "an assignment inside of an expression");
    refuses(&kernels("for (i = 0; i < n; i++) a[i] = v;"), "v is volatile");
    refuses(&kernels("for (i = 0; i < n; i++) *p++ = b[i];"), "an expression that is not understood");
    refuses(&kernels("for (i = 0; i < n; i++) { p = a + i; p[0] = 1; }"), "the pointer p is changed");
    refuses(&kernels("for (i = 0; i < n; i++) { a[i] = 1; n = n - 1; }"), "trip count is not known");
    refuses(&kernels("for (i = 0; i < n; i++) { a[i] = 1; i++; }"), "trip count is not known");
    let called = "the loop's bound is a call of g, which each iteration evaluates";
    refuses(&kernels("for (i = 0; i < g(n); i++) a[i] = 1;"), called);
    refuses(&kernels("while (n > 0) { a[n] = 1; n--; }"), "trip count is not known");
    refuses("#pragma acc kernels\n#pragma acc loop seq\nfor (i = 0; i < n; i++) a[i] = 1;", "loop seq");
    refuses(
        "#pragma acc kernels\nfor (i = 0; i < n; i++)\n#pragma acc parallel loop\nfor (j = 0; j < n; j++) a[j] = 1;",
        "\"acc parallel loop\" inside",
    );
    refuses("#pragma acc kernels device_type(nvidia) num_gangs(3)\nfor (i = 0; i < n; i++) a[i] = 1;", "device_type");
}

#[test]
fn options_change_what_is_opened() {
    let overlap = "#pragma acc kernels\nfor (i = 0; i < n; i++) p[i] = q[k[i]];";
    assert!(messages(overlap, Rules { no_alias: true, ..RULES }, false).iter().all(|message| !message.refused));
    let sum = "#pragma acc kernels\nfor (i = 0; i < n; i++) sum += a[i];";
    assert!(messages(sum, RULES, false).iter().any(|message| message.text == "reduction of sum recognised"));
    let without = messages(sum, Rules { implicit_reductions: false, ..RULES }, false);
    assert_eq!(without[0].text, "loop carried dependence of sum prevents parallelization");
    let named = "#pragma acc kernels\n#pragma acc loop reduction(+:sum)\nfor (i = 0; i < n; i++) sum += a[i];";
    assert!(
        messages(named, Rules { implicit_reductions: false, ..RULES }, false).iter().all(|message| !message.refused)
    );
}

#[test]
fn cxx_loops_need_an_independent_clause() {
    let rules = Rules { prove: false, ..RULES };
    let nest = "for (int z = 0; z < n; z++) p[z] = q[z];";
    let refused = messages(&format!("#pragma acc kernels\n{nest}"), rules, true);
    assert!(refused.iter().all(|message| message.refused && message.text.contains("C++")), "{refused:?}");
    let promised = messages(&format!("#pragma acc kernels loop independent\n{nest}"), rules, true);
    assert!(promised.iter().all(|message| !message.refused), "{promised:?}");
    // A promise says nothing of the bound.
    let called = "#pragma acc kernels loop independent\nfor (int z = 0; z < s->size(); z++) p[z] = q[z];";
    let called: Vec<(String, &str)> =
        messages(called, rules, true).iter().map(|one| (one.text.clone(), one.remedy())).collect();
    let reason = "the loop's bound is a call of s->size, which each iteration evaluates".to_owned();
    assert_eq!(called, [(reason, "the bound in a variable, set ahead of the construct")]);
}

/// Checks that shared data is not treated as local to an iteration, though the loop is asserted independent.
#[test]
fn independent_cxx_loops_share_no_temporaries() {
    let refused = |parameters: &str, statement: &str| {
        let text = format!(
            "struct part {{ double v; }};\nvoid store(double &to, double x);\ndouble twice(const double &x);\ntemplate <class T>\n\
             void f(double *a, int n, {parameters})\n{{\n    double t = 0;\n#pragma acc kernels loop independent\n    \
             for (int i = 0; i < n; i++) {{ {statement} }}\n}}\n"
        );
        let new = rewrite_c(&text, "a.cpp", true, Mode::Parallel, Rules { prove: false, ..RULES });
        new.messages.into_iter().filter(|message| message.refused).map(|message| message.text).collect::<Vec<_>>()
    };
    let shared =
        |name: &str| vec![format!("each iteration stores to {name}, a reference, a structure or an unknown variable")];
    assert_eq!(refused("double &r", "r = a[i]; a[i] = r;"), shared("r"));
    assert_eq!(refused("part p", "p = part(); a[i] = p.v;"), shared("p"));
    assert_eq!(refused("int", "global = a[i]; a[i] = global;"), shared("global"));
    assert_eq!(refused("int", "store(t, a[i]); a[i] = t;"), ["loop carried dependence of t prevents parallelization"]);
    assert_eq!(
        refused("int", "unknown(t, a[i]); a[i] = t;"),
        ["loop carried dependence of t prevents parallelization"]
    );
    // Each iteration has its own, or only reads.
    assert_eq!(refused("T s", "T x = a[i]; s = x; a[i] = s;"), Vec::<String>::new());
    assert_eq!(refused("double &r", "part p; p = part(); a[i] = r + p.v;"), Vec::<String>::new());
    assert_eq!(refused("int", "a[i] = twice(t) + this->x[i] + std::max(t, a[i]);"), Vec::<String>::new());
}

#[test]
fn reductions_of_references_keep_their_clause() {
    let text = "void f(const double *a, int n, double &s)\n{\n#pragma acc kernels loop independent reduction(+:s)\n    \
                for (int i = 0; i < n; i++)\n        s += a[i];\n}\n";
    let new = rewrite_c(text, "a.cpp", true, Mode::Parallel, Rules { prove: false, ..RULES }).text.unwrap();
    assert!(new.contains("#pragma acc parallel loop reduction(+:s) copy(s) firstprivate(n)"), "{new}");
}

#[test]
fn ranges_of_pointers_are_compared_at_run_time() {
    let nest = "#pragma acc kernels\nfor (i = 0; i < n; i++)\nfor (j = 0; j < 3; j++) p[i * 3 + j] = q[i + 2];";
    let all: Vec<String> = messages(nest, RULES, false).into_iter().map(|message| message.text).collect();
    assert!(all.contains(&"ranges of q and p are compared at run time".into()), "{all:?}");
    let text = "void f(double *p, double *q, int n)\n{\n#pragma acc kernels\n    for (int i = 0; i < n; i++)\n        p[i] = q[2 * i];\n}\n";
    let new = rewrite_c(text, "a.c", false, Mode::Parallel, RULES).text.unwrap();
    assert!(new.contains("if (((unsigned long)(q + (-2LL + 2LL * n) + 1) <= (unsigned long)(p + (0)) || "), "{new}");
    let directives: Vec<&str> = new.lines().filter_map(|line| line.trim().strip_prefix("#pragma acc ")).collect();
    assert_eq!(directives, ["parallel loop firstprivate(n)", "parallel num_gangs(1) num_workers(1) firstprivate(n)"]);
}

/// The parts of a construct, and the attribute of each scalar.
#[test]
fn directives_of_parts_have_all_attributes() {
    let text = "void f(double *restrict a, int n, double x)\n{\n    int i;\n    double t, s = 0;\n#pragma acc kernels copy(a[0:n]) async(2)\n    {\n        \
                for (i = 0; i < n; i++) {\n            t = x * i;\n            a[i] = t;\n        }\n        for (i = 0; i < n; i++)\n            s += a[i];\n        \
                a[0] = s;\n    }\n    a[1] = s;\n}\n";
    let new = rewrite_c(text, "a.c", false, Mode::Parallel, RULES).text.unwrap();
    let directives: Vec<&str> = new.lines().filter_map(|line| line.trim().strip_prefix("#pragma acc ")).collect();
    assert_eq!(
        directives,
        [
            "enter data copyin(a[0:n]) copyin(s) async(2)",
            "parallel loop private(t) present(a[0:n]) firstprivate(n, x) async(2)",
            "parallel loop reduction(+:s) present(a[0:n]) copy(s) firstprivate(n) async(2)",
            "parallel num_gangs(1) num_workers(1) present(a[0:n]) copy(s) async(2)",
            "exit data copyout(a[0:n]) copyout(s) async(2)",
        ]
    );
    // Each line of the source is where it was.
    let source = crate::source::Source::c(&new, "a.c");
    let at = new.find("a[1] = s").unwrap();
    assert_eq!(source.place(at).0.number, 15);
    let at = new.find("s += a[i]").unwrap();
    assert_eq!(source.place(at).0.number, 12);
}

fn directives(text: &str) -> Vec<String> {
    let new = rewrite_c(text, "a.c", false, Mode::Parallel, RULES);
    let new = new.text.unwrap_or_else(|| panic!("{:?}", new.messages));
    new.lines().filter_map(|line| line.trim().strip_prefix("#pragma acc ")).map(str::to_owned).collect()
}

#[test]
fn loops_without_iterations_leave_the_device() {
    let text = "void f(int *a)\n{\n    int i;\n#pragma acc kernels copy(a[0:9])\n    for (i = 2; i < 1; i++)\n        a[i] = 1;\n    a[i] = i;\n}\n";
    assert_eq!(directives(text), ["data copy(a[0:9])"]);
}

#[test]
fn loops_without_iterations_keep_no_directive_inside() {
    let inner = "#pragma acc loop seq\nfor (j = 0; j < n; j += i) a[j] = 1;";
    let nest = format!("for (i = 5; i < 3; i++) {{\n{inner}\n}}");
    let text = format!(
        "void f(double *restrict a, int n)\n{{\nint i, j;\n#pragma acc kernels\n{{\n{nest}\nfor (i = 0; i < n; i++) a[i] = 1;\n}}\n}}\n"
    );
    let new = rewrite_c(&text, "a.c", false, Mode::Parallel, RULES).text.unwrap();
    let directives: Vec<&str> = new.lines().filter_map(|line| line.trim().strip_prefix("#pragma acc ")).collect();
    assert_eq!(directives.len(), 1, "{new}");
    assert!(directives[0].starts_with("parallel loop"), "{new}");
}

/// Its loop does not run on the host then; all others are opened.
#[test]
fn a_declaration_with_a_value_of_the_device_stays_in_its_loop() {
    let first = "for (i = 1; i < n; i++) { double d = a[i - 1]; a[i] = d; for (j = 0; j < n; j++) b[j] += d; }";
    let construct = format!("#pragma acc kernels\n{{\n{first}\nfor (j = 0; j < n; j++) b[j] += 1;\n}}");
    let all = messages(&construct, RULES, false);
    let printed: Vec<(u32, bool)> = all.iter().map(|message| (message.place.number, message.refused)).collect();
    assert_eq!(printed, [(12, true), (13, false)], "{all:?}");
}

/// A part must not hold the `continue` of a loop around it.
#[test]
fn a_loop_whose_part_would_leave_it_stays_whole() {
    let body = |condition: &str| {
        format!(
            "#pragma acc kernels\nfor (l = 1; l < n; l++) {{ for (j = 0; j < n; j++) a[j] = l; if ({condition}) continue; for (j = 0; j < n; j++) b[j] = l; }}"
        )
    };
    refuses(&body("a[3] > 1"), "loop carried dependence of a prevents parallelization");
    let opened = messages(&body("l > 1"), RULES, false);
    assert_eq!(opened.iter().filter(|message| message.text == "loop is parallelizable").count(), 2, "{opened:?}");
}

/// A value that an iteration leaves behind when `continue` skips what would set it.
#[test]
fn a_scalar_that_continue_leaves_is_live() {
    let text = "double f(double *restrict a, const double *restrict b, int n)\n{\n    int i, l;\n    double t = 0;\n#pragma acc kernels\n    for (l = 0; l < 9; l++) {\n        \
                for (i = 0; i < n; i++) { t = b[i]; a[i] = t; }\n        if (l == 7) continue;\n        t = 5;\n    }\n    return t;\n}\n";
    let new = rewrite_c(text, "a.c", false, Mode::Parallel, RULES);
    assert!(new.text.as_ref().is_some_and(|text| text.contains("t = accord_l_t;")), "{new:?}");
}

/// Names of data clauses elsewhere mean other variables.
#[test]
fn clauses_of_another_function_say_nothing_of_a_local() {
    let text = "void g(double *t)\n{\n#pragma acc enter data copyin(t[0:3])\n}\nvoid f(double *restrict a, int n)\n{\n    for (int t = 0; t < 3; t++) {\n\
                #pragma acc kernels\n        for (int i = 0; i < n; i++)\n            a[i] = t;\n    }\n}\n";
    assert_eq!(directives(text)[1..], ["parallel loop firstprivate(n, t)"]);
}

#[test]
fn parts_in_a_data_construct_need_none_of_their_own() {
    let within = |clauses: &str| {
        let text = format!(
            "double a[9], b[9];\nvoid f(int n)\n{{\n#pragma acc data {clauses}\n    {{\n#pragma acc kernels\n        {{\n            \
             for (int i = 0; i < 9; i++)\n                a[i] = 1;\n            for (int i = 0; i < 9; i++)\n                b[i] = 2;\n        }}\n    }}\n}}\n"
        );
        directives(&text).into_iter().filter(|one| one.starts_with("data")).collect::<Vec<_>>()
    };
    assert_eq!(within("copy(a, b[0:9])"), ["data copy(a, b[0:9])"]);
    assert_eq!(within("copy(a)"), ["data copy(a)", "data copy(b)"]);
    assert_eq!(within("copy(a, b) if(n)"), ["data copy(a, b) if(n)", "data copy(a) copy(b)"]);
}

/// Lanes run over neighbouring elements: over `j`, though the sum over `k` could run in parallel too.
#[test]
fn the_inner_loop_with_neighbouring_elements_gets_the_lanes() {
    let product = |element: &str| {
        directives(&format!(
            "void f(double *restrict a, double *restrict b, double *restrict c, int n)\n{{\n#pragma acc kernels\n    for (int i = 0; i < n; i++)\n        \
             for (int j = 0; j < n; j++) {{\n            double t = 0;\n            for (int k = 0; k < n; k++)\n                \
             t += a[i * n + k] * {element};\n            c[i * n + j] = t;\n        }}\n}}\n"
        ))
    };
    assert_eq!(product("b[k * n + j]"), ["parallel loop firstprivate(n)", "loop"]);
    assert_eq!(product("b[j * n + k]"), ["parallel loop firstprivate(n)", "loop", "loop reduction(+:t)"]);
}

#[test]
fn loops_around_that_with_neighbouring_elements_get_a_level() {
    let text = "void f(double *restrict a, double *restrict b, int n)\n{\n#pragma acc kernels\n    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)\n            \
                for (int k = 0; k < n; k++)\n                a[(i * n + j) * n + k] = b[(i * n + j) * n + k];\n}\n";
    assert_eq!(directives(text), ["parallel loop firstprivate(n)", "loop", "loop"]);
}

/// A temporary of the inner loop's iterations is private in both loops.
#[test]
fn temporaries_of_inner_loops_are_private_in_each() {
    let text = "void f(double *restrict a, const double *restrict b, int n)\n{\n    int i, j;\n    double t;\n#pragma acc kernels\n    for (i = 0; i < n; i++)\n        \
                for (j = 0; j < n; j++) {\n            t = b[i * n + j];\n            a[i * n + j] = t * t;\n        }\n}\n";
    assert_eq!(directives(text), ["parallel loop gang private(j, t) firstprivate(n)", "loop vector private(t)"]);
}

/// The last iteration hands the value on; without iterations the old one stays.
#[test]
fn values_that_are_used_afterwards_are_stored_by_the_last_iteration() {
    let function = |clauses: &str, header: &str, body: &str| {
        format!(
            "double f(double *restrict a, const double *restrict b, int n)\n{{\n    double t = 3;\n#pragma acc kernels{clauses}\n    \
             for ({header})\n        {body}\n    return t;\n}}\n"
        )
    };
    let opened = |header: &str, body: &str| {
        rewrite_c(&function("", header, body), "a.c", false, Mode::Parallel, RULES).text.unwrap()
    };
    let up = opened("int i = 0; i < n; i++", "{ t = b[i]; a[i] = t; }");
    assert!(
        up.contains(
            "{ __typeof__(t) accord_l_t = t; \n#pragma acc parallel loop private(t) copy(accord_l_t) firstprivate(n)"
        ),
        "{up}"
    );
    assert!(up.contains("if ((n) - i <= 1) { accord_l_t = t; } } t = accord_l_t; }"), "{up}");
    let down = opened("int i = n; i >= 3; i -= 2", "{ t = b[i]; a[i] = t; }");
    assert!(down.contains("if (i - (3) < 2) { accord_l_t = t; }"), "{down}");
    for (clauses, body) in [
        ("", "{ if (b[i] > 1) t = b[i]; a[i] = 1; }"),
        ("", "{ if (b[i] > 1) { t = 1; continue; } t = b[i]; a[i] = t; }"),
        (" async(1)", "{ t = b[i]; a[i] = t; }"),
    ] {
        let text = function(clauses, "int i = 0; i < n; i++", body);
        let new = rewrite_c(&text, "a.c", false, Mode::Parallel, RULES);
        assert_eq!(new.text, None, "{body}");
    }
}

/// Two loops are one where their iterations are known to be few enough for GCC's counter; a row a gang otherwise.
#[test]
fn levels_of_two_loops() {
    let nest = |outer: &str, inner: &str, body: &str| {
        directives(&format!(
            "double a[999][999];\nvoid f(int n, int m)\n{{\n#pragma acc kernels\n    for (int i = 0; i < {outer}; i++)\n        \
             for (int j = 0; j < {inner}; j++)\n            {body}\n}}\n"
        ))
    };
    let rows = ["parallel loop gang firstprivate(n, m)", "loop vector"];
    assert_eq!(nest("n", "m", "a[i][j] = 1;"), rows);
    assert_eq!(nest("999", "999", "a[i][j] = 1;"), ["parallel loop collapse(2)"]);
    assert_eq!(nest("999", "i", "a[i][j] = 1;"), ["parallel loop gang", "loop vector"]);
    assert_eq!(nest("99999", "99999", "a[i][j] = 1;"), ["parallel loop gang", "loop vector"]);
    assert_eq!(nest("3", "n", "a[i][j] = 1;"), ["parallel loop firstprivate(n)", "loop"]);
}

/// Levels that the source names are kept where `parallel` takes them, without sizes; `tile` is only a promise.
#[test]
fn levels_of_the_source() {
    let nest = |outer: &str, inner: &str| {
        let inner = if inner.is_empty() { String::new() } else { format!("#pragma acc loop {inner}\n") };
        directives(&format!(
            "double a[999][999];\nvoid f(int n, int m)\n{{\n#pragma acc kernels loop {outer}\n    for (int i = 0; i < n; i++)\n{inner}        \
             for (int j = 0; j < m; j++)\n            a[i][j] = 1;\n}}\n"
        ))
    };
    let of =
        |levels: [&str; 2]| [format!("parallel loop {}firstprivate(n, m)", levels[0]), format!("loop{}", levels[1])];
    assert_eq!(nest("independent gang(16) worker", "independent vector(32)"), of(["gang worker ", " vector"]));
    assert_eq!(nest("independent gang", "independent worker vector"), of(["gang ", " worker vector"]));
    // Not from the outside inwards.
    assert_eq!(nest("independent vector", "independent gang"), of(["", ""]));
    assert_eq!(
        nest("independent collapse(2) gang vector", ""),
        ["parallel loop gang vector collapse(2) firstprivate(n, m)"]
    );
    assert_eq!(nest("independent tile(8, 8)", ""), of(["", ""]));
    assert_eq!(nest("independent gang", "seq"), of(["gang ", " seq"]));
}
