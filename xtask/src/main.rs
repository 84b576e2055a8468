//! `cargo xtask generate [--check]`: writes what is generated from the Rust types, or tells what is stale.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod errors;
mod schemas;

/// A generated file: its place in the repository and its text.
struct Generated {
    path: &'static str,
    text: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["generate"] => false,
        ["generate", "--check"] => true,
        _ => {
            eprintln!("usage: cargo xtask generate [--check]");
            return ExitCode::from(2);
        }
    };
    let stale = generate(check);
    if check && !stale.is_empty() {
        eprintln!("stale: {} (run `cargo xtask generate` and commit)", stale.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Writes all files unless `check` is set, and gives the paths of those that were stale.
fn generate(check: bool) -> Vec<&'static str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = schemas::all().into_iter().chain(errors::all());
    files.filter_map(|file| write(&root, &file, check)).collect()
}

/// Writes a file unless `check` is set, and gives its path if it was stale.
fn write(root: &Path, file: &Generated, check: bool) -> Option<&'static str> {
    let path: PathBuf = root.join(file.path);
    if std::fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
        return None;
    }
    if !check {
        std::fs::create_dir_all(path.parent().unwrap_or(root)).expect("the folder of a generated file");
        std::fs::write(&path, &file.text).expect("a generated file");
        println!("wrote {}", file.path);
    }
    Some(file.path)
}

#[cfg(test)]
mod tests {
    #[test]
    fn committed_files_are_current() {
        assert_eq!(super::generate(true), [""; 0], "run `cargo xtask generate` and commit");
    }
}
