//! Models of devices, as in requests.

/// Words of product names that are not part of a model: vendors, and form factors.
const LEFT_OUT: [&str; 12] = [
    "nvidia",
    "tesla",
    "quadro",
    "geforce",
    "generation",
    "pcie",
    "nvl",
    "graphics",
    "device",
    "corporation",
    "gpu",
    "ib",
];

/// Returns the model for a product name: `h200` for `NVIDIA H200`, `a100` for `NVIDIA A100-SXM4-80GB`, and
/// `h200-mig-1g.18gb` for an instance of a divided GPU. Requests use it after the type. It may be empty.
#[must_use]
pub fn model_of(product: &str) -> String {
    let lower = product.to_ascii_lowercase();
    let (whole, instance) = lower.split_once(" mig ").map_or((&*lower, None), |(whole, rest)| (whole, Some(rest)));
    let words = whole.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '.'));
    let kept = words.filter(|word| !word.is_empty() && !LEFT_OUT.contains(word) && !is_memory(word));
    let instance = instance.into_iter().flat_map(|instance| ["mig", instance.trim()]);
    let mut model = kept.chain(instance).collect::<Vec<_>>().join("-");
    model.retain(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
    model.truncate(crate::request::words::NAME_MAX);
    model
}

/// Whether a word describes the size or kind of memory, or the socket: `80gb`, `hbm3`, `sxm4`.
fn is_memory(word: &str) -> bool {
    let numbered = |prefix: &str| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    let is_size = word.strip_suffix("gb").is_some_and(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
    is_size || ["sxm", "hbm"].into_iter().any(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::words::is_model;

    #[test]
    fn models_are_what_people_call_them() {
        for (product, model) in [
            ("NVIDIA H200", "h200"),
            ("NVIDIA A100-SXM4-80GB", "a100"),
            ("NVIDIA A100 80GB PCIe", "a100"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H100 NVL", "h100"),
            ("Tesla V100-SXM2-16GB", "v100"),
            ("NVIDIA L40S", "l40s"),
            ("NVIDIA GH200 480GB", "gh200"),
            ("NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
            ("NVIDIA H200 MIG 1g.18gb", "h200-mig-1g.18gb"),
            ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "a100-mig-3g.20gb"),
        ] {
            assert_eq!(model_of(product), model, "{product}");
            assert!(is_model(model));
        }
    }

    #[test]
    fn odd_names_give_short_names_or_none() {
        for product in ["", "NVIDIA", "é\u{1b}[2J/:+ ", &"x ".repeat(200)] {
            let model = model_of(product);
            assert!(model.is_empty() || is_model(&model), "{product:?}: {model:?}");
        }
    }
}
