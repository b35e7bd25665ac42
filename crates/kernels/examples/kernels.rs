//! Shows what becomes of a preprocessed source: `kernels parallel|check FILE`.

use accord_kernels::analysis::Rules;
use accord_kernels::{Mode, rewrite_c};

fn main() -> Result<(), std::io::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, file] = &*arguments else { return Ok(()) };
    let mode = if mode == "check" { Mode::Check } else { Mode::Parallel };
    let text = std::fs::read_to_string(file)?;
    let rules = Rules { prove: true, implicit_reductions: true, no_alias: false };
    let new = rewrite_c(&text, file, false, mode, rules);
    for message in new.messages {
        eprintln!(
            "{}:{}: {}{}",
            message.place.file,
            message.place.number,
            if message.refused { "left: " } else { "" },
            message.text
        );
    }
    println!("{}", new.text.unwrap_or(text));
    Ok(())
}
