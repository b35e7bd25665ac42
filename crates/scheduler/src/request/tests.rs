use super::words::{
    ALTERNATIVES_MAX, COMPUTE_MAX, CORES_MAX, COUNT_MAX, LABELS_MAX, NAME_MAX, NODES_MAX, PARTS_MAX, PRIORITY_MAX,
    SIZE_MAX, TEXT_MAX, TIME_MAX_MS, Word,
};
use super::*;
use accord_types::DeviceType;
use proptest::prelude::*;

fn read(text: &str) -> Request {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the word that the error of a text marks, and the message.
fn wrong(text: &str) -> (String, String) {
    let error = text.parse::<Request>().expect_err(text);
    (text[error.range()].to_owned(), error.message().to_owned())
}

fn nvidia(model: Option<&str>) -> ClassFilter {
    ClassFilter { kind: DeviceType::Nvidia, model: model.map(str::to_owned), ..ClassFilter::ALL }
}

#[test]
fn a_request_has_parts_alternatives_and_words() {
    let text = "2-4:nvidia/h200:20G + 8:cpu:cores=4:ram=64G else 2:nvidia:50%:cc=9.0 near nodes=2 label=rack=r1 \
                label=net=ib on=gpu01,gpu02 avoid=gpu07 limit=2h wait=0s priority=-3 account=physics";
    let request = read(text);
    let shared = Take::Shared(Amount { milli: 0, memory: 20 << 30 });
    let [first, second] = &request.alternatives[..] else { panic!("{request:?}") };
    let gpus = Part { count: Count { least: 2, most: 4 }, take: shared, ..Part::whole(1, nvidia(Some("h200"))) };
    assert_eq!(first.parts[0], gpus);
    let cpu = ClassFilter { kind: DeviceType::Cpu, ..ClassFilter::ALL };
    assert_eq!(first.parts[1], Part { cores: 4_000, host_memory: 64 << 30, ..Part::whole(8, cpu) });
    let half = Take::Shared(Amount { milli: 500, memory: 0 });
    let newer = ClassFilter { compute_at_least: (9, 0), ..nvidia(None) };
    assert_eq!(second.parts, [Part { take: half, ..Part::whole(2, newer) }]);
    assert_eq!((request.locality, request.nodes), (Locality::Near, Some(2)));
    assert_eq!(request.labels, [("rack".to_owned(), "r1".to_owned()), ("net".to_owned(), "ib".to_owned())]);
    assert_eq!((request.only_nodes.len(), request.avoid_nodes.len()), (2, 1));
    assert_eq!((request.limit_ms, request.wait_ms), (Some(7_200_000), Some(0)));
    assert_eq!((request.priority, request.account.as_deref()), (-3, Some("physics")));
}

#[test]
fn short_forms_have_one_canonical_text() {
    for (text, canonical) in [
        ("1", "1"),
        ("nvidia", "1:nvidia"),
        ("any", "1"),
        ("20g", "1:20G"),
        ("50%", "1:50%"),
        ("2:nvidia+8:cpu", "2:nvidia + 8:cpu"),
        (" near  3:50%:20480M:nvidia ", "3:nvidia:20G:50% near"),
        ("2-2:cpu", "2:cpu"),
        ("4:nvidia:whole", "4:nvidia"),
        ("4:nvidia:80G:whole", "4:nvidia:whole:80G"),
        ("1:nvidia per-rank limit=5400", "1:nvidia per-rank limit=90m"),
        ("1 priority=0", "1"),
        ("1:33.3%", "1:33.3%"),
    ] {
        assert_eq!(read(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn memory_is_a_part_of_a_shared_device_unless_the_device_is_whole() {
    let part = |text: &str| read(text).alternatives[0].parts[0].clone();
    let whole = part("1:nvidia:whole:80G");
    assert_eq!((whole.take, whole.class.memory_at_least), (Take::Exclusive, 80 << 30));
    let shared = part("1:nvidia:80G");
    assert_eq!(shared.take, Take::Shared(Amount { milli: 0, memory: 80 << 30 }));
    assert_eq!(shared.class.memory_at_least, 0);
}

#[test]
fn an_error_marks_the_wrong_word_and_names_the_nearest() {
    for (text, word, message) in [
        ("4:nvida/h200:20G near", "nvida", "did you mean nvidia?"),
        ("4:gpu", "gpu", "did you mean nvidia?"),
        ("4 cpu", "cpu", "write them as in 4:cpu"),
        ("1:cpu 2:cpu", "2:cpu", "devices follow devices"),
        ("1:cpu,2:nvidia", "cpu,2", "+ combines parts"),
        ("2:h200", "h200", "nvidia/h200"),
        ("4:nvidia naer", "naer", "did you mean near?"),
        ("4:nvidia lmit=2h", "lmit", "did you mean limit?"),
        ("2 : nvidia", ":", "as in 2:nvidia"),
        (":nvidia", ":nvidia", "as in 2:nvidia"),
        ("/cpu", "/cpu", "a device type is missing"),
        ("1.5:cpu", "1.5", "whole number from 1"),
        ("-1:cpu", "-1", "whole number from 1"),
        ("xyzzy", "xyzzy", "4:nvidia/h200:20G"),
        ("4:nvidia esle 2:cpu", "esle", "did you mean else?"),
        ("4:nvidia:20", "20", "20G"),
        ("4:nvidia:20X", "20X", "no size"),
        ("4:nvidia:2000T", "2000T", "at most 1024T"),
        ("4:nvidia:0%", "0%", "0.1% to 100%"),
        ("4:nvidia:100.1%", "100.1%", "0.1% to 100%"),
        ("4:nvidia:1.25%", "1.25%", "one decimal"),
        ("0:nvidia", "0", "from 1 to"),
        ("4-2:nvidia", "4-2", "2-4"),
        ("1-2-3", "1-2-3", "2-4"),
        ("4:nvidia/H200", "H200", "small letters"),
        ("4:nvidia/", "", "small letters"),
        ("4:any/h200", "h200", "needs a type"),
        ("4:nvidia:cpu", "cpu", "twice"),
        ("4:20G:20G", "20G", "twice"),
        ("4::20G", "", "empty"),
        ("4:nvidia:cc=9", "9", "cc=9.0"),
        ("4:nvidia:cc=0.0", "0.0", "cc=9.0"),
        ("4:nvidia:cors=9", "cors", "did you mean cores?"),
        ("4:nvidia:ram=9", "9", "no size"),
        ("4:whole:50%", "50%", "no share"),
        ("2:nvidia 8:cpu", "8:cpu", "write +"),
        ("2:nvidia near + 8:cpu", "near", "after all devices"),
        ("2:nvidia near limit=2h else 8:cpu", "limit=2h", "after all devices"),
        ("2:nvidia +", "+", "missing after it"),
        ("2:nvidia else", "else", "missing after it"),
        ("else 2:nvidia", "else", "between devices"),
        ("2:nvidia + near", "near", "no device"),
        ("near", "near", "4:nvidia"),
        ("2:nvidia near near", "near", "twice"),
        ("2:nvidia near spread", "spread", "contradicts near"),
        ("2:nvidia local nodes=2", "nodes=2", "contradicts local"),
        ("2:nvidia per-rank nodes=2", "nodes=2", "contradicts per-rank"),
        ("2:nvidia local per-rank", "local", "contradicts per-rank"),
        ("2:nvidia near=1", "near=1", "no value"),
        ("2:nvidia limit", "limit", "limit=2h"),
        ("2:nvidia limit=", "limit=", "limit=2h"),
        ("2:nvidia limit=0s", "0s", "longer than 0"),
        ("2:nvidia limit=2x", "2x", "limit=2h"),
        ("2:nvidia limit=9999d", "9999d", "ten years"),
        ("2:nvidia wait=soon", "soon", "wait=30m"),
        ("2:nvidia nodes=0", "0", "from 1"),
        ("4:nvidia nodes=3", "4", "4 devices can't be divided equally among 3 nodes"),
        ("2:nvidia nodes=3", "2", "among 3 nodes"),
        ("2:nvidia priority=1001", "1001", "-1000 to 1000"),
        ("2:nvidia label=rack", "rack", "label=rack=r1"),
        ("2:nvidia label=rack=a=b", "a=b", "a name has"),
        ("2:nvidia label=rack=a label=rack=b", "rack", "twice"),
        ("2:nvidia on=a,,b", "", "a name has"),
        ("2:nvidia on=a on=a", "a", "twice"),
        ("2:nvidia on=a avoid=a", "avoid=a", "to be avoided"),
        ("2-3:nvidia per-rank", "2-3", "no range"),
        ("", "", "4:nvidia"),
        ("  ", "  ", "4:nvidia"),
    ] {
        let (marked, reported) = wrong(text);
        assert_eq!(marked, word, "{text}: {reported}");
        assert!(reported.contains(message), "{text}: {reported}");
        assert!(!reported.contains('\n'), "{reported}");
    }
}

#[test]
fn a_range_on_several_nodes_is_of_multiples() {
    assert_eq!(read("3-9:nvidia nodes=3").nodes, Some(3));
    assert_eq!(wrong("3-8:nvidia nodes=3").0, "3-8");
    assert_eq!(wrong("4-9:nvidia nodes=3").0, "4-9");
}

#[test]
fn a_class_is_a_type_and_a_model() {
    for class in [nvidia(Some("h200")), nvidia(None), ClassFilter::ALL] {
        assert_eq!(class.to_string().parse(), Ok(class));
    }
    let error = "nvdia/h200".parse::<ClassFilter>().unwrap_err();
    assert_eq!((error.range(), error.message().contains("did you mean nvidia?")), (0..5, true));
}

#[test]
fn lists_and_texts_are_bounded() {
    let many = |count: usize, one: &str, between: &str| vec![one; count].join(between);
    let named = |count: usize, word: &str| (0..count).fold("1".to_owned(), |text, n| format!("{text} {word}n{n}"));
    for (most, text) in [
        (ALTERNATIVES_MAX, &(|n| many(n, "1", " else ")) as &dyn Fn(usize) -> String),
        (PARTS_MAX, &|n| many(n, "1", "+")),
        (NODES_MAX, &|n| named(n, "on=")),
        (NODES_MAX, &|n| named(n, "avoid=")),
        (LABELS_MAX, &|n| (0..n).fold("1".to_owned(), |text, n| format!("{text} label=l{n}=v"))),
        (NAME_MAX, &|n| format!("1 account={}", "a".repeat(n))),
        (COUNT_MAX as usize, &|n| n.to_string()),
        (PRIORITY_MAX as usize, &|n| format!("1 priority={n}")),
        (TEXT_MAX, &|n| format!("1{}", " ".repeat(n - 1))),
    ] {
        read(&text(most));
        assert!(text(most + 1).parse::<Request>().is_err(), "{most}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9._-]{1,12}"
}

fn class() -> impl Strategy<Value = ClassFilter> {
    let typed =
        (prop_oneof![Just(DeviceType::Nvidia), Just(DeviceType::Cpu)], proptest::option::of("[a-z0-9._-]{1,12}"));
    let typed = typed.prop_map(|(kind, model)| ClassFilter { kind, model, ..ClassFilter::ALL });
    let class = prop_oneof![Just(ClassFilter::ALL), typed];
    (class, prop_oneof![Just((0, 0)), (1..=COMPUTE_MAX, 0..=COMPUTE_MAX)])
        .prop_map(|(class, compute_at_least)| ClassFilter { compute_at_least, ..class })
}

fn part() -> impl Strategy<Value = Part> {
    let shared = (0..=1_000_u32, prop_oneof![Just(0), 1..=SIZE_MAX])
        .prop_filter("nothing", |(milli, memory)| *milli > 0 || *memory > 0);
    let take =
        prop_oneof![Just(Take::Exclusive), shared.prop_map(|(milli, memory)| Take::Shared(Amount { milli, memory }))];
    let rest =
        (prop_oneof![Just(0), 1..=CORES_MAX], prop_oneof![Just(0), 1..=SIZE_MAX], prop_oneof![Just(0), 1..=SIZE_MAX]);
    (1..=COUNT_MAX, 0..100_u32, class(), take, rest).prop_map(
        |(least, more, mut class, take, (cores, host_memory, whole))| {
            class.memory_at_least = if take == Take::Exclusive { whole } else { 0 };
            Part {
                count: Count { least, most: least.saturating_add(more).min(COUNT_MAX) },
                class,
                take,
                cores,
                host_memory,
            }
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let parts = proptest::collection::vec(part(), 1..=PARTS_MAX).prop_map(|parts| Alternative { parts });
    let alternatives = proptest::collection::vec(parts, 1..=ALTERNATIVES_MAX);
    let locality = prop_oneof![
        Just(Locality::OwnFirst),
        Just(Locality::Local),
        Just(Locality::Near),
        Just(Locality::Pack),
        Just(Locality::Spread)
    ];
    let labels = proptest::collection::btree_map(name(), name(), 0..4).prop_map(|labels| labels.into_iter().collect());
    let nodes =
        || proptest::collection::btree_set(name(), 0..4).prop_map(|names| names.into_iter().collect::<Vec<_>>());
    let times = (proptest::option::of(1..=TIME_MAX_MS), proptest::option::of(0..=TIME_MAX_MS));
    let last =
        (-PRIORITY_MAX..=PRIORITY_MAX, proptest::option::of(name()), any::<bool>(), proptest::option::of(name()));
    (alternatives, locality, labels, nodes(), nodes(), times, last).prop_map(
        |(
            alternatives,
            locality,
            labels,
            only_nodes,
            mut avoid_nodes,
            (limit_ms, wait_ms),
            (priority, account, gang, reservation),
        )| {
            avoid_nodes.retain(|node| !only_nodes.contains(node));
            let counts_are_exact = alternatives
                .iter()
                .all(|alternative| alternative.parts.iter().all(|part| part.count.least == part.count.most));
            let parts = || alternatives.iter().flat_map(|alternative| &alternative.parts);
            let whole = parts().all(|part| part.take == Take::Exclusive);
            let reservation = reservation.filter(|_| whole && locality != Locality::Spread);
            Request {
                alternatives,
                locality,
                nodes: (locality == Locality::Near && !gang).then_some(1),
                labels,
                only_nodes,
                avoid_nodes,
                limit_ms,
                wait_ms,
                priority,
                account,
                reservation,
                ranks: 1,
                per_rank: gang && counts_are_exact && locality != Locality::Local,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_canonical_text_is_read_as_its_request(request in request()) {
        let text = request.to_string();
        prop_assert_eq!(text.parse::<Request>(), Ok(request), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_marked(text in "[a-z0-9:/%=+., éG-]{0,40}") {
        match text.parse::<Request>() {
            Ok(request) => {
                let canonical = request.to_string();
                prop_assert_eq!(canonical.parse::<Request>(), Ok(request), "{}", canonical);
            }
            Err(error) => {
                prop_assert!(text.get(error.range()).is_some());
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn the_longest_canonical_text_is_no_longer_than_a_text_may_be() {
    let long = |n: usize| format!("{n:0>NAME_MAX$}");
    let part = Part {
        count: Count { least: COUNT_MAX - 1, most: COUNT_MAX },
        class: ClassFilter { compute_at_least: (COMPUTE_MAX, COMPUTE_MAX), ..nvidia(Some(&long(1))) },
        take: Take::Shared(Amount { milli: 999, memory: SIZE_MAX - 1 }),
        cores: CORES_MAX - 1,
        host_memory: SIZE_MAX - 1,
    };
    let request = Request {
        alternatives: vec![Alternative { parts: vec![part; PARTS_MAX] }; ALTERNATIVES_MAX],
        nodes: Some(1),
        labels: (0..LABELS_MAX).map(|n| (long(n), long(n))).collect(),
        only_nodes: (0..NODES_MAX).map(long).collect(),
        avoid_nodes: (NODES_MAX..2 * NODES_MAX).map(long).collect(),
        limit_ms: Some(TIME_MAX_MS - 1),
        wait_ms: Some(TIME_MAX_MS - 1),
        priority: -PRIORITY_MAX,
        account: Some(long(1)),
        locality: Locality::Near,
        ..Request::of(Part::whole(1, ClassFilter::ALL))
    };
    let text = request.to_string();
    assert!(text.len() <= TEXT_MAX, "{}", text.len());
    assert_eq!(text.parse(), Ok(request));
}

#[test]
fn every_word_has_a_name_of_its_own_and_an_example_that_is_read() {
    for word in Word::ALL {
        assert_eq!(Word::named(word.name()), Some(word));
        let example = word.example().unwrap_or(word.name());
        read(&format!("2:nvidia {example}"));
    }
}
