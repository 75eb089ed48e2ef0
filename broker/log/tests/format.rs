//! FORMAT.md shows the bytes that the code writes: a change of one without the other fails here.

use rillway_log::examples;

/// Rows of 16 bytes; rows of zeros are left out, and so is a row's ASCII.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (n, row) in bytes.chunks(16).enumerate() {
        if row.iter().any(|b| *b != 0) {
            let hex: Vec<String> = row.iter().map(|b| format!("{b:02x}")).collect();
            out.push_str(&format!("{:04x}  {}\n", n * 16, hex.join(" ")));
        }
    }
    out
}

/// The block of the page that begins with this line.
fn shown(title: &str) -> String {
    let page = include_str!("../FORMAT.md");
    let marker = format!("```hex\n# {title}\n");
    let Some((_, rest)) = page.split_once(&marker) else {
        panic!("FORMAT.md has no example `{title}`")
    };
    rest.split("```").next().unwrap_or_default().to_owned()
}

fn compare(title: &str, bytes: &[u8]) {
    let (page, code) = (shown(title), dump(bytes));
    assert!(page == code, "FORMAT.md, example `{title}`: the code writes\n{code}");
}

#[test]
fn the_frame_of_the_page_is_what_the_code_writes() {
    compare("frame", &examples::frame());
}

#[test]
fn the_checkpoint_header_of_the_page_is_what_the_code_writes() {
    compare("checkpoint header", &examples::checkpoint_header());
}

#[test]
fn the_meta_file_of_the_page_is_what_the_code_writes() {
    compare(".meta", &examples::meta());
}

#[test]
fn the_frame_of_the_page_is_read_by_its_salt_and_by_no_other() {
    let frame = examples::frame();
    assert!(rillway_log::FrameHeader::decode(examples::SALT, &frame).is_some());
    assert!(rillway_log::FrameHeader::decode(examples::SALT + 1, &frame).is_none());
}
