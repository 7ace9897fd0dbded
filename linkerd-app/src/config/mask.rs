//! Values of the environment as others may see them: the admin port may be reachable by more than its operator.

/// The value of a variable, masked if the variable's name suggests a secret. The path of a secret's file is not masked.
pub fn masked<'a>(name: &str, value: &'a str) -> &'a str {
    let words: Vec<_> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .collect();
    let is_secret = words
        .iter()
        .any(|word| KEY.contains(&&**word) || SECRET.iter().any(|secret| word.contains(secret)));
    let is_path =
        value.starts_with('/') && words.last().is_some_and(|word| PATH.contains(&&**word));
    match is_secret && !is_path && !value.is_empty() {
        true => MASK,
        false => value,
    }
}

/// Parts of names that mark a secret. `PGPASSWORD` has one in the middle of a word.
const SECRET: [&str; 5] = ["secret", "token", "password", "passwd", "passphrase"];

/// Whole words of names that mark a secret; a part of a word does not, as in `KEYCLOAK_URL`.
const KEY: [&str; 4] = ["key", "keys", "apikey", "apikeys"];

/// Last words of names that mark a path.
const PATH: [&str; 3] = ["file", "path", "dir"];

const MASK: &str = "***";
