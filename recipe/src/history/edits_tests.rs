use proptest::prelude::*;

use super::*;
use crate::model::Version;

fn text_ids(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    Version::V41.tokenizer().encode_plain(text, &mut ids);
    ids
}

fn applied(edits: &Edits, printed: &[u32]) -> Option<Vec<u32>> {
    edits.apply(printed, &Version::V41.tokenizer()).map(|(ids, _)| ids)
}

fn written(edits: &Edits) -> Vec<u8> {
    let mut body = Vec::new();
    edits.write(&mut body);
    body
}

/// The edits as they come back, and the number of bytes that they take.
fn read(edits: &Edits) -> (Edits, usize) {
    let body = written(edits);
    let mut rest = &body[..];
    let read = Edits::read(&mut rest).unwrap();
    assert!(rest.is_empty());
    for end in 0..body.len() {
        assert_eq!(Edits::read(&mut &body[..end]), None, "cut at {end}");
    }
    (read, body.len())
}

#[test]
fn other_spellings_are_small_differences() {
    let quick = "The quick brown fox jumps over the lazy dog.";
    let numbers = |comma: &str| format!("[{}]", (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(comma));
    let cases = [
        (text_ids(quick), [text_ids("The qu"), text_ids(&quick[6..])].concat(), 9),
        (text_ids("{\"a\": 1.5, \"b\": [true, null]}"), text_ids("{\"a\":1.50,\"b\":[true,null]}"), 24),
        (text_ids("\"caf\u{e9} au lait\""), text_ids("\"caf\\u00e9 au lait\""), 15),
        (text_ids(&numbers(", ")), text_ids(&numbers(",")), 320),
        (text_ids(quick), text_ids(&format!("\n\n{quick}\n")), 14),
    ];
    for (printed, own, most) in cases {
        let (edits, length) = read(&Edits::between(&printed, &own));
        assert_eq!(applied(&edits, &printed), Some(own));
        assert!(length <= most, "{length} bytes: {edits:?}");
    }
}

#[test]
fn what_never_meets_again_is_replaced_whole() {
    let (printed, own): (Vec<u32>, Vec<u32>) = ((1000..6000).collect(), (6000..11_000).collect());
    let (edits, length) = read(&Edits::between(&printed, &own));
    assert_eq!(applied(&edits, &printed), Some(own));
    assert!(length < 2 * 5000 + 10);
}

#[test]
fn control_ids_and_edits_that_do_not_fit_are_never_applied() {
    let edit = |replaced: usize, ids: &[u32]| Edits(vec![Edit { kept: 1, replaced, ids: ids.to_vec() }]);
    let printed = text_ids("one two three");
    let end = Version::V41.tokenizer().special_id("</think>").unwrap();
    assert_eq!(applied(&edit(1, &[5]), &printed), Some(vec![printed[0], 5, printed[2]]));
    for edits in [edit(1, &[end]), edit(1, &[u32::MAX]), edit(3, &[]), edit(usize::MAX, &[])] {
        assert_eq!(applied(&edits, &printed), None, "{edits:?}");
    }
    assert_eq!(applied(&Edits(vec![Edit { kept: 4, replaced: 0, ids: Vec::new() }]), &printed), None);
}

proptest! {
    #[test]
    fn any_difference_reads_back(
        printed in prop::collection::vec(40_u32..50, 0..60), own in prop::collection::vec(40_u32..50, 0..60),
    ) {
        let edits = Edits::between(&printed, &own);
        prop_assert_eq!(edits.is_empty(), printed == own);
        prop_assert_eq!(applied(&read(&edits).0, &printed), Some(own));
    }

    #[test]
    fn numbers_read_back(number in any::<u32>()) {
        let mut out = Vec::new();
        write_number(number, &mut out);
        prop_assert_eq!(read_number(&mut &out[..]), Some(number));
        prop_assert_eq!(read_number(&mut &out[..out.len() - 1]), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        body in prop::collection::vec(any::<u8>(), 0..60), printed in prop::collection::vec(40_u32..50, 0..9),
    ) {
        let mut rest = &body[..];
        while let Some(edits) = Edits::read(&mut rest) {
            applied(&edits, &printed);
        }
    }
}
